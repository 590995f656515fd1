package main

import (
	"strings"
	"testing"

	"github.com/google/licensecheck"

	"palyra/packaging/linked"
)

func TestAllow(t *testing.T) {
	t.Parallel()
	good := component{name: "example.com/good v1.0.0", licence: "Apache-2.0 AND MIT", in: []string{"palyra"}}
	if err := allow([]component{good}); err != nil {
		t.Errorf("allowed licences are refused: %v", err)
	}
	for _, licence := range []string{"GPL-3.0", "MIT AND AGPL-3.0", "", "MIT OR GPL-2.0"} {
		err := allow([]component{good, {name: "example.com/bad v2.0.0", licence: licence, in: []string{"palyra", "palyrad"}}})
		if err == nil {
			t.Errorf("the licence %q is allowed", licence)
			continue
		}
		for _, part := range []string{"example.com/bad v2.0.0", "is linked into palyra, palyrad", "packaging/notices/allowed.go"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error about %q does not have %q: %v", licence, part, err)
			}
		}
		if strings.Contains(err.Error(), "good") {
			t.Errorf("the error names an allowed component: %v", err)
		}
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	text := write([]component{
		{"b v1", "MIT", []string{"palyrad"}, []linked.Text{{Body: "the text  \r\n\n"}, {Body: "a notice\n"}}, []string{"c-1.0.0"}},
		{"a v1", "MIT", []string{"palyra", "palyrad"}, []linked.Text{{Body: "\nthe text\n"}, {Body: " \n"}}, nil},
	})
	want := heading + "a v1\n    MIT; in palyra, palyrad\nb v1\n    MIT; in palyrad\n" +
		"    Its static library contains these Rust crates, without their licence files;\n    https://crates.io/crates/NAME has them:\n      c-1.0.0\n\n" +
		rule + "a v1\nb v1\n" + rule + "\nthe text\n\n" + rule + "b v1\n" + rule + "\na notice\n"
	if text != want {
		t.Errorf("the notices are\n%s\nwant\n%s", text, want)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ have, want, difference string }{
		{"a\nb\n", "a\nb\n", ""},
		{"a\nc\n", "a\nb\n", `line 2 is "c" and should be "b"`},
		{"a", "a\nb", `it ends before line 2, which should be "b"`},
		{"a\nb", "a", "it should end before line 2"},
	} {
		if got := compare(c.have, c.want); got != c.difference {
			t.Errorf("compare(%q, %q) = %q, want %q", c.have, c.want, got, c.difference)
		}
	}
}

func TestCopied(t *testing.T) {
	t.Parallel()
	components, err := copied("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range components {
		matches := licensecheck.Scan([]byte(c.texts[0].Body)).Match
		if len(matches) == 0 || matches[0].ID != c.licence {
			t.Errorf("the text of %s is not that of %s: %+v", c.name, c.licence, matches)
		}
	}
	if err := allow(components); err != nil {
		t.Error(err)
	}
}

// TestPrograms: the platforms of a program are one entry.
func TestPrograms(t *testing.T) {
	t.Parallel()
	got := programs([]linked.Program{{Name: "palyra", OS: "linux", Arch: "amd64"}, {Name: "palyrad", OS: "linux", Arch: "amd64"}, {Name: "palyra", OS: "darwin", Arch: "arm64"}})
	if strings.Join(got, " ") != "palyra palyrad" {
		t.Errorf("the programs are %q", got)
	}
}
