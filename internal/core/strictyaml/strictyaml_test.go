package strictyaml_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/strictyaml"

	"github.com/google/go-cmp/cmp"
)

type entry struct {
	Text  string         `yaml:"text"`
	Flag  bool           `yaml:"flag"`
	Maybe *bool          `yaml:"maybe"`
	Count int64          `yaml:"count"`
	Wait  time.Duration  `yaml:"wait"`
	Any   map[string]any `yaml:"any"`

	place string
}

func (e *entry) SetPlace(line, column int) { e.place = fmt.Sprintf("%d:%d", line, column) }

type file struct {
	Entries []entry  `yaml:"entries"`
	Names   []string `yaml:"names"`
}

func read(text string, o strictyaml.Options) (f file, err error) {
	if o.Brackets == 0 {
		o.Brackets, o.Indented = 64, 256
	}
	root, err := strictyaml.Parse([]byte(text), o)
	if err != nil || root == nil {
		return f, err
	}
	return f, strictyaml.Decode(root, &f)
}

func TestDecode(t *testing.T) {
	t.Parallel()
	yes := true
	for _, c := range []struct {
		text string
		want entry
	}{
		{"entries:\n  - text: 5\n    flag: true\n    maybe: true\n    count: 7\n    wait: 20ms", entry{Text: "5", Flag: true, Maybe: &yes, Count: 7, Wait: 20 * time.Millisecond, place: "2:5"}},
		{"entries:\n  - {text: 2026-01-05T12:00:00Z, maybe: ~}", entry{Text: "2026-01-05T12:00:00Z", place: "2:6"}},
		{"entries:\n  - any: {day: 2026-01-05, yes: yes, n: 1, f: 1.5, t: true, z: ~, l: [a, {}], 1: b}", entry{place: "2:5", Any: map[string]any{
			"day": "2026-01-05", "yes": "yes", "n": 1, "f": 1.5, "t": true, "z": nil, "l": []any{"a", map[string]any{}}, "1": "b",
		}}},
		{"entries: [~]", entry{}},
		{"entries:\n  - any: {a: &x {b: 1}, c: *x}", entry{place: "2:5", Any: map[string]any{"a": map[string]any{"b": 1}, "c": map[string]any{"b": 1}}}},
		{"entries:\n  - any: {a: &x {b: 1, d: 2}, c: {<<: *x, b: 3}}", entry{place: "2:5", Any: map[string]any{
			"a": map[string]any{"b": 1, "d": 2}, "c": map[string]any{"b": 3, "d": 2},
		}}},
		{"entries:\n  - any: {a: &x {b: 1}, c: &y {b: 2, d: 3}, e: {<<: [*x, *y]}}", entry{place: "2:5", Any: map[string]any{
			"a": map[string]any{"b": 1}, "c": map[string]any{"b": 2, "d": 3}, "e": map[string]any{"b": 1, "d": 3},
		}}},
		{"entries:\n  - any: {a: 99999999999999999999, b: 08, c: 1e3, d: -0, e: 1.5}", entry{place: "2:5", Any: map[string]any{
			"a": "99999999999999999999", "b": "08", "c": "1e3", "d": 0, "e": 1.5,
		}}},
	} {
		f, err := read(c.text, strictyaml.Options{})
		if diff := cmp.Diff([]entry{c.want}, f.Entries, cmp.AllowUnexported(entry{})); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", c.text, err, diff)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"entries: [{txt: a}]":                      `line 1, column 12: unknown field "txt"`,
		"Entries: []":                              "unknown field",
		"names: []\nnames: []":                     `line 2, column 1: the key "names" is already defined at line 1`,
		"entries: [{any: {a: 1, 'a': 2}}]":         "already defined",
		"entries: [{flag: yes}]":                   `line 1, column 18: this is "yes"; it has to be a true or false`,
		"entries: [{flag: 'true'}]":                "true or false",
		"entries: [{count: 1.5}]":                  "whole number",
		"entries: [{count: '1'}]":                  "whole number",
		"entries: [{count: 99999999999999999999}]": "whole number",
		"entries: [{wait: 0}]":                     "time such as",
		"names: [\xff]":                            "not UTF-8",
		"entries: [{wait: 5}]":                     "time such as",
		"entries: [{text: [a]}]":                   "this is a list",
		"entries: [{any: [a]}]":                    "a mapping",
		"entries: {a: b}":                          "a list",
		"names: a":                                 "a list",
		"entries: [{any: {[a]: b}}]":               "a key has to be a text",
		"entries: [{any: {~: b}}]":                 "a key has to be a text",
		"entries: [{any: !!binary YQ==}]":          "tag",
		"entries: [{any: {a: !b c}}]":              "the tag !b",
		"entries: [{any: &x {a: *x}}]":             "holds itself",
		"entries: [{any: &x {<<: *x}}]":            "values",
		"names: [" + strings.Repeat("[", 64):       "line 1, column 72: while increasing flow level: the file is nested deeper",
		"names:\n - a\n  b: c\n":                   "line ",
		"names: [\"a":                              "line 1",
		"names: *a":                                "line 1, column 8: unknown anchor",
	} {
		_, err := read(text, strictyaml.Options{})
		var known *strictyaml.Error
		if !errors.As(err, &known) || known.Line < 1 || known.Column < 1 || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// Without Plain, the same texts are read, except aliases without an anchor.
func TestPlain(t *testing.T) {
	t.Parallel()
	for text, place := range map[string]string{
		"names: [&a b]":                   "1:9",
		"names: &a [b]":                   "1:8",
		"names: [!!str b]":                "1:9",
		"names: [! b]":                    "1:9",
		"entries: [{any: {<<: {a: b}}}]":  "1:18",
		"%YAML 1.2\n---\nnames: []":       "1:1",
		"\ufeff%YAML 1.1\n---\nnames: []": "1:1",
		"# a\r%YAML 1.1\r---\rnames: []":  "1:1",
		"%TAG ! !foo\n---\nnames: []":     "1:1",
		"names: [a, *a]":                  "1:12",
		"names: [&a a, b, *a]":            "1:9",
		"entries: [{any: {? &k a : b}}]":  "1:20",
		"entries: &e [{any: &x {a: *e}}]": "1:27",
	} {
		var known *strictyaml.Error
		if _, err := read(text, strictyaml.Options{Brackets: 9, Indented: 9, Plain: true}); !errors.As(err, &known) || !strings.Contains(err.Error(), "has no anchors") {
			t.Errorf("%q: %v", text, err)
		} else if got := fmt.Sprintf("%d:%d", known.Line, known.Column); got != place {
			t.Errorf("%q: at %s, want %s", text, got, place)
		}
	}
	for _, text := range []string{"names: [&a b]", "names: [!!str b]", "entries: [{any: {<<: {a: b}}}]", "names: [&a a, b, *a]"} {
		if _, err := read(text, strictyaml.Options{}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestAliasExpansion: the expansion of nested aliases is bounded.
func TestAliasExpansion(t *testing.T) {
	t.Parallel()
	text := "entries:\n  - any:\n      a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		text += fmt.Sprintf("      a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 10), ", "))
	}
	if _, err := read(text, strictyaml.Options{}); err == nil || !strings.Contains(err.Error(), "values with its aliases") {
		t.Error(err)
	}
}

func TestDocuments(t *testing.T) {
	t.Parallel()
	if _, err := read("names: []\n---\nnames: []\n", strictyaml.Options{}); !errors.Is(err, strictyaml.ErrDocuments) {
		t.Error(err)
	}
	for _, text := range []string{"", "# nothing\n"} {
		if root, err := strictyaml.Parse([]byte(text), strictyaml.Options{}); root != nil || err != nil {
			t.Errorf("%q: %v, %v", text, root, err)
		}
	}
}

// No text causes a panic, and each error has a position.
func FuzzDecode(f *testing.F) {
	f.Add("entries: [{text: a, any: {b: [1, 2.5, ~]}}]", true)
	f.Add("names: &a [b, *a]\n<<: {x: y}", false)
	f.Fuzz(func(t *testing.T, text string, plain bool) {
		_, err := read(text, strictyaml.Options{Brackets: 64, Indented: 256, Plain: plain})
		var known *strictyaml.Error
		if err != nil && !errors.Is(err, strictyaml.ErrDocuments) && (!errors.As(err, &known) || known.Line < 1 || known.Column < 1) {
			t.Errorf("%q: %v has no place", text, err)
		}
	})
}
