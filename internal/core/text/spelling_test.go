package text_test

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"palyra/internal/core/text"
)

func TestFoldCase(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"":                               "",
		".":                              ".",
		"src/main.go":                    "src/main.go",
		"SECRETS/.ENV":                   "secrets/.env",
		"Stra\u00dfe/STRASSE":            "strasse/strasse",
		"CLE\u0301/k":                    "cl\u00e9/k",
		"CL\u00c9/k":                     "cl\u00e9/k",
		"id_r\u017fa":                    "id_rsa", // a long s
		"server.\u212aEY":                "server.key",
		"\ufb01le":                       "file", // a ligature
		"\u1e9e":                         "ss",
		".e\u200dn\u00adv\ufe0f":         ".env", // joiner, soft hyphen, selector
		".e\u034fnv":                     ".env", // grapheme joiner
		"\u03a3\u03c3\u03c2":             "\u03c3\u03c3\u03c3",
		"\u1100\u1161":                   "\uac00",
		"\u2126":                         "\u03c9", // ohm
		"a\xffB":                         "a\ufffdb",
		"\u0130":                         "i\u0307",
		"\uff25\uff2e\uff36":             "\uff45\uff4e\uff56", // full width stays full width
		"dir. /file":                     "dir. /file",
		"a\\B:C":                         "a\\b:c",
		"\u03b1\u0345\u0301/\u1fb4":      "\u03ac\u03b9/\u03ac\u03b9",
		"\u79d8\ufa10":                   "\u79d8\u585a", // a compatibility ideograph
		"\u13a0\uab70":                   "\u13a0\u13a0",
		"README.md/\U0001f600\U00010400": "readme.md/\U0001f600\U00010428",
	} {
		if got := text.FoldCase(given); got != want {
			t.Errorf("%+q is folded to %+q, want %+q", given, got, want)
		}
	}
}

// Folding is idempotent, and all characters that a file system could treat as equal fold to the
// same text.
func TestFoldCaseOfEveryCharacter(t *testing.T) {
	t.Parallel()
	for r := rune(0); r <= unicode.MaxRune; r++ {
		if !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.S, unicode.P, unicode.Cf) || unicode.Is(unicode.Unified_Ideograph, r) {
			continue
		}
		folded := checkFolded(t, string(r))
		for _, other := range []rune{unicode.ToUpper(r), unicode.ToLower(r), unicode.SimpleFold(r)} {
			// The Turkish letters fold to themselves, whatever their upper-case forms are.
			if r == '\u0131' || r == '\u0130' || other == '\u0131' || other == '\u0130' {
				continue
			}
			if got := text.FoldCase(string(other)); got != folded {
				t.Errorf("%U is folded to %+q, its other case %U to %+q", r, folded, other, got)
			}
		}
	}
}

func FuzzFoldCase(f *testing.F) {
	for _, text := range []string{"a", "SECRETS/.ENV", "\u03b1\u0345\u0301", "E\u0323\u0301", "\u1e69\u0307", "a\xff\u0301", "\u0345\u0345\u0315", "\u200d\u0301e"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkFolded(t, text) })
}

// checkFolded folds a text and checks the invariants of the result.
func checkFolded(t *testing.T, content string) string {
	t.Helper()
	folded := text.FoldCase(content)
	if again := text.FoldCase(folded); again != folded {
		t.Errorf("%+q is folded to %+q, and that to %+q", content, folded, again)
	}
	if !norm.NFC.IsNormalString(folded) || !utf8.ValidString(folded) {
		t.Errorf("%+q is folded to %+q, which is not in NFC", content, folded)
	}
	for _, form := range []norm.Form{norm.NFC, norm.NFD} {
		if !utf8.ValidString(content) {
			break
		}
		if got := text.FoldCase(form.String(content)); got != folded {
			t.Errorf("%+q is folded to %+q, in another form to %+q", content, folded, got)
		}
	}
	return folded
}
