package tomledit

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"palyra/internal/core/must"
)

const config = `# mine
model = "gpt-5" # the big one

[mcp_servers.docs]
command = "docs"
  args = ["a", # one
    "b"]

[hooks.state."/home/me/.codex/hooks.json:PreToolUse:0"]
trusted_hash = "sha256:1"
# the end
`

func TestSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		path []string
		want string
		made string
	}{
		"an empty text":         {"", []string{"listen", "agents"}, "[listen]\nagents = \"x\"\n", "listen"},
		"a new table":           {"a = 1\n", []string{"b", "c"}, "a = 1\n\n[b]\nc = \"x\"\n", "b"},
		"no line end":           {"a = 1", []string{"b", "c"}, "a = 1\n\n[b]\nc = \"x\"", "b"},
		"line ends of Windows":  {"[b]\r\na = 1\r\n", []string{"b", "c"}, "[b]\r\na = 1\r\nc = \"x\"\r\n", "b.c"},
		"a table with a header": {"[b]\n\n[d]\n", []string{"b", "c"}, "[b]\nc = \"x\"\n\n[d]\n", "b.c"},
		"at the end of one":     {"[b]\n  a = 1 # one\n# two\n[d]\n", []string{"b", "c"}, "[b]\n  a = 1 # one\n  c = \"x\"\n# two\n[d]\n", "b.c"},
		"the root":              {"a = 1\n[d]\n", []string{"c"}, "a = 1\nc = \"x\"\n[d]\n", "c"},
		"dotted keys":           {"b.a = 1\n[d]\n", []string{"b", "c"}, "b.a = 1\nb.c = \"x\"\n[d]\n", "b.c"},
		"the last line":         {"[b]\na = 1", []string{"b", "c"}, "[b]\na = 1\nc = \"x\"", "b.c"},
		"a byte-order mark":     {"\ufeffa = 1\n", []string{"b", "c"}, "\ufeffa = 1\n\n[b]\nc = \"x\"\n", "b"},
		"root behind a mark":    {"\ufeff[d]\n", []string{"c"}, "\ufeffc = \"x\"\n[d]\n", "c"},
		"a key with a dot":      {"", []string{"b", "c.d"}, "[b]\n\"c.d\" = \"x\"\n", "b"},
	} {
		edited, made, err := Set([]byte(c.text), c.path, "x")
		must.Do(t, err)
		if string(edited) != c.want || strings.Join(made, ".") != c.made {
			t.Errorf("%s: got %q, made %q\nwant %q", name, edited, made, c.want)
		}
		back := must.Get(Remove(edited, made))(t)
		if string(back) != c.text {
			t.Errorf("%s: removed again it is %q, want %q", name, back, c.text)
		}
	}
}

func TestSetReplaces(t *testing.T) {
	t.Parallel()
	edited, made, err := Set([]byte(config), []string{"mcp_servers", "docs", "args"}, []string{"c"})
	must.Do(t, err)
	if want := strings.Replace(config, "[\"a\", # one\n    \"b\"]", `["c"]`, 1); string(edited) != want || made != nil {
		t.Errorf("made %q, got\n%s", made, edited)
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	edited, err := AppendTable([]byte(config), []string{"workspaces"}, Pair{"name", "a"}, Pair{"path", "/a"})
	must.Do(t, err)
	if want := config + "\n[[workspaces]]\nname = \"a\"\npath = \"/a\"\n"; string(edited) != want {
		t.Errorf("got\n%s", edited)
	}
	two, err := AppendTable(edited, []string{"workspaces"}, Pair{"name", "b"})
	must.Do(t, err)
	one, err := RemoveTable(two, []string{"workspaces"}, 1)
	must.Do(t, err)
	if string(one) != string(edited) {
		t.Errorf("the second removed is\n%s", one)
	}
	none, err := RemoveTable(edited, []string{"workspaces"}, 0)
	must.Do(t, err)
	if string(none) != config {
		t.Errorf("the only one removed is\n%s", none)
	}
	if _, err := AddTable([]byte(config), []string{"mcp_servers", "docs"}); !errors.Is(err, ErrExists) {
		t.Errorf("a table that is there: %v", err)
	}
	without := must.Get(Remove([]byte(config), []string{"hooks"}))(t)
	if want := config[:strings.Index(config, "\n[hooks")] + "# the end\n"; string(without) != want {
		t.Errorf("without hooks it is\n%s", without)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	_, _, err := Set([]byte("a = 1\nb = = 2\n"), []string{"c"}, 1)
	var e *Error
	if !errors.As(err, &e) || e.Line != 2 {
		t.Errorf("no TOML: %v", err)
	}
	for text, path := range map[string][]string{
		"hooks = { a = 1 }\n": {"hooks", "state", "x"}, // a table in one line
		"a = 1\n":             {"a", "b"},              // not a table
		"[[a]]\nb = 1\n":      {"a", "c"},              // a list of tables
	} {
		if edited, _, err := Set([]byte(text), path, "x"); !errors.Is(err, ErrNotEdited) {
			t.Errorf("%q: %q, %v", text, edited, err)
		}
	}
	if _, err := Remove([]byte("a = { b = 1 }\n"), []string{"a", "b"}); !errors.Is(err, ErrNotEdited) {
		t.Errorf("out of a line: %v", err)
	}
	if _, err := Remove([]byte("a = 1\n"), []string{"b"}); !errors.Is(err, ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
}

// FuzzEdit: an added value is in the text, nothing else changes, and its removal restores the
// original text.
func FuzzEdit(f *testing.F) {
	for _, text := range []string{config, "", "\n", "# x", "a = 1", "[a]\r\nb = 1\r\n\r\n", "a.b = 1\na.c.d = '''x\ny'''\n", "[[a]]\n[[a.b]]\nc = 1\n[d]", "[a.b]\n[a]\n"} {
		f.Add([]byte(text), "a", "b", "x")
		f.Add([]byte(text), "hooks", "st.te", "\u0001\"\\\u007f\n")
	}
	f.Fuzz(func(t *testing.T, text []byte, one, two, value string) {
		before, err := decode(text)
		if err != nil || !utf8.ValidString(one) || !utf8.ValidString(two) || !utf8.ValidString(value) {
			return
		}
		for _, path := range [][]string{{one}, {one, two}, {one, two, one}} {
			edited, made, err := Set(text, path, value)
			if err != nil {
				continue
			}
			after, err := decode(edited)
			must.Do(t, err)
			if got, _ := at(after, path); got != value || !reflect.DeepEqual(after, with(before, path, value)) {
				t.Fatalf("%q with %q = %q is %q", text, path, value, edited)
			}
			if made == nil {
				continue
			}
			back, err := Remove(edited, made)
			if err != nil || string(back) != string(text) {
				t.Fatalf("%q with %q is %q, and removed again %q, %v", text, path, edited, back, err)
			}
		}
		edited, err := AppendTable(text, []string{one}, Pair{two, value})
		if err != nil {
			return
		}
		list, _ := before[one].([]any)
		back, err := RemoveTable(edited, []string{one}, len(list))
		if err != nil || string(back) != string(text) {
			t.Fatalf("%q with a table %q is %q, and removed again %q, %v", text, one, edited, back, err)
		}
	})
}
