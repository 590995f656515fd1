package text_test

import (
	"testing"

	"palyra/internal/core/text"
)

// lookalikeCases are texts with their visible forms. The console's test has the same rows.
var lookalikeCases = map[string]string{
	"agent.json":                               "agent.json",
	"\u0430gent.json":                          `\u{430}gent.json`,       // Cyrillic a
	"g\u0456thub/search":                       `g\u{456}thub/search`,    // Ukrainian i
	"p\u03bfrt":                                `p\u{3bf}rt`,             // Greek omicron
	"\U0001d41abc":                             `\u{1d41a}bc`,            // a mathematical letter
	"v\u06f1":                                  `v\u{6f1}`,               // an Arabic digit that looks like l
	"\u0441\u043e\u0440.txt":                   "\u0441\u043e\u0440.txt", // one script: a Russian word
	"\u0430\u0440\u0440\u04cf\u0435.com":       "\u0430\u0440\u0440\u04cf\u0435.com",
	"yap\u0131m\u0131":                         "yap\u0131m\u0131", // Turkish
	"na\u00efve caf\u00e9":                     "na\u00efve caf\u00e9",
	"USB-\u043a\u0430\u0431\u0435\u043b\u044c": "USB-\u043a\u0430\u0431\u0435\u043b\u044c", // two words
	"\u4e2d\u6587abc":                          "\u4e2d\u6587abc",
	"don\u2019t":                               "don\u2019t",
	"5 \u00b5s":                                "5 \u00b5s",
}

func TestLookalikes(t *testing.T) {
	t.Parallel()
	for s, want := range lookalikeCases {
		if got := text.Visible(s); got != want {
			t.Errorf("%q is shown as %q, want %q", s, got, want)
		}
		if got := text.Lookalikes(s) != nil; got != (s != want) {
			t.Errorf("%q has look-alikes: %v", s, got)
		}
	}
}

func TestSkeleton(t *testing.T) {
	t.Parallel()
	for _, same := range [][2]string{
		{"agent.json", "\u0430gent.json"}, {"\u0441\u043e\u0440", "cop"}, {"APP", "\uff21PP"}, {"caf\u00e9", "cafe\u0301"}, {"github", "g\u0131thub"},
	} {
		if a, b := text.Skeleton(same[0]), text.Skeleton(same[1]); a != b {
			t.Errorf("%q and %q have the skeletons %q and %q", same[0], same[1], a, b)
		}
	}
	for _, other := range [][2]string{{"agent", "agents"}, {"\u0441\u043e\u0431", "cop"}, {"caf\u00e9", "cafe"}} {
		if text.Skeleton(other[0]) == text.Skeleton(other[1]) {
			t.Errorf("%q and %q have the same skeleton", other[0], other[1])
		}
	}
}

func FuzzVisible(f *testing.F) {
	for s := range lookalikeCases {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if visible := text.Visible(s); text.Visible(visible) != visible && text.Lookalikes(visible) != nil {
			t.Errorf("%q is shown as %q, which has look-alikes", s, visible)
		}
	})
}
