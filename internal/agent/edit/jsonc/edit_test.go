package jsonc

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"palyra/internal/core/must"
)

const settings = `{
  // what I like
  "model": "opus", // the big one
  "permissions": { "allow": ["Bash(ls:*)"], },
  /* hooks of mine */
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [] } // old
    ]
  }
  // "theme": "dark"
}
`

// TestInsert: a value is inserted at its place, and its removal restores the original text.
func TestInsert(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		path  Path
		value any
		want  string
	}{
		"an empty object":              {"{}", Keys("a"), 1, "{\n  \"a\": 1\n}"},
		"with its line break":          {"{}\n", Keys("a", "b"), 1, "{\n  \"a\": {\n    \"b\": 1\n  }\n}\n"},
		"one line":                     {`{"a":1}`, Keys("b"), []int{1}, `{"a":1,"b":[1]}`},
		"one line with spaces":         {`{"a": 1}`, Keys("b"), true, `{"a": 1, "b": true}`},
		"behind a comment":             {"{\n\t\"a\": 1 // one\n}", Keys("b"), 2, "{\n\t\"a\": 1, // one\n\t\"b\": 2\n}"},
		"a trailing comma stays":       {"{\n  \"a\": 1, // one\n}", Keys("b"), 2, "{\n  \"a\": 1, // one\n  \"b\": 2,\n}"},
		"line ends of Windows":         {"{\r\n    \"a\": 1\r\n}\r\n", Keys("b", "c"), 2, "{\r\n    \"a\": 1,\r\n    \"b\": {\r\n        \"c\": 2\r\n    }\r\n}\r\n"},
		"a comment alone":              {"{ // nothing\n}", Keys("a"), 1, "{ // nothing\n  \"a\": 1\n}"},
		"before what is commented out": {"{\n  \"a\": 1\n  // \"b\": 2\n}", Keys("c"), 3, "{\n  \"a\": 1,\n  \"c\": 3\n  // \"b\": 2\n}"},
		"a list":                       {"{\n  \"a\": [\n    1\n  ]\n}", Keys("a").With(End()), 2, "{\n  \"a\": [\n    1,\n    2\n  ]\n}"},
		"an empty list":                {"{\n  \"a\": []\n}", Keys("a").With(End()), 2, "{\n  \"a\": [\n    2\n  ]\n}"},
	} {
		edited, made, err := Insert([]byte(c.text), c.path, c.value)
		must.Do(t, err)
		if string(edited) != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, edited, c.want)
		}
		back := must.Get(Remove(edited, made))(t)
		if string(back) != c.text {
			t.Errorf("%s: removed again it is\n%q\nwant\n%q", name, back, c.text)
		}
	}
}

func TestInsertAmongComments(t *testing.T) {
	t.Parallel()
	edited, made, err := Insert([]byte(settings), Keys("hooks", "PreToolUse").With(End()), map[string]any{"matcher": "*"})
	must.Do(t, err)
	want := strings.Replace(settings, "] } // old\n", "] }, // old\n      {\n        \"matcher\": \"*\"\n      }\n", 1)
	if string(edited) != want {
		t.Errorf("got\n%s\nwant\n%s", edited, want)
	}
	if made.String() != "hooks.PreToolUse[1]" {
		t.Errorf("made %s", made)
	}
}

func TestReplace(t *testing.T) {
	t.Parallel()
	edited := must.Get(Replace([]byte(settings), Keys("model"), "haiku"))(t)
	if want := strings.Replace(settings, `"opus"`, `"haiku"`, 1); string(edited) != want {
		t.Errorf("got\n%s", edited)
	}
	raw := must.Get(Raw([]byte(settings), Keys("permissions")))(t)
	if string(raw) != `{ "allow": ["Bash(ls:*)"], }` {
		t.Errorf("raw: %s", raw)
	}
}

func TestRemove(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"{\n  \"a\": 1,\n  \"b\": 2\n}":         "{\n  \"b\": 2\n}",
		"{ // c\n \"a\": 1, \"b\": 2}":          "{ // c\n  \"b\": 2}",
		"{\n  \"a\": 1 // one\n}":               "{ // one\n}",
		"{\"b\": 2, // two\n \"a\": 1 /* x */}": "{\"b\": 2 // two\n  /* x */}",
	} {
		got := must.Get(Remove([]byte(text), Keys("a")))(t)
		if string(got) != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                           "1:1: a value is missing",
		"{\n  \"a\": tru\n}":         "2:8: this is not a value",
		"{\"a\": 1 \"b\": 2}":        "1:9: a comma or '}' is missing",
		"{\"a\": 1,, \"b\": 2}":      "1:9: a key in quotes is missing",
		"{a: 1}":                     "1:2: a key in quotes is missing",
		"{\"a\": 1, \"a\": 2}":       "1:10: the key \"a\" is duplicated",
		"{} {}":                      "1:4: unexpected data after the end",
		"{ /* ":                      "1:3: the comment is not terminated",
		"{\"a\": \"\n\"}":            "1:8: the string is not valid JSON",
		"[1":                         "1:3: a comma or ']' is missing",
		"{\"a\": \"\xff\"}":          "1:8: the text is not valid UTF-8",
		strings.Repeat("[", 300):     "1:202: values are nested more than 200 deep",
		"{\"a\"":                     "1:5: a colon is missing",
		"{\"a\": \"\\":               "1:7: the string is not terminated",
		"{\"a\": 1 / 2}":             "1:9: a comma or '}' is missing",
		"{\r\n\"a\": 1\r\n\"b\": 2}": "3:1: a comma or '}' is missing",
	} {
		_, _, err := Insert([]byte(text), Keys("x"), 1)
		var e *Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, _, err := Insert([]byte(`{"a": [1]}`), Keys("a", "b"), 1); !errors.Is(err, ErrOtherKind) {
		t.Errorf("through a list: %v", err)
	}
	if _, _, err := Insert([]byte(`{"a": 1}`), Keys("a"), 1); !errors.Is(err, ErrExists) {
		t.Errorf("what is there: %v", err)
	}
	if _, err := Remove([]byte(`{"a": 1}`), Keys("b")); !errors.Is(err, ErrNotFound) {
		t.Errorf("what is not there: %v", err)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	var v struct {
		Model string
		Hooks map[string][]struct{ Matcher string }
	}
	must.Do(t, Decode([]byte("\xef\xbb\xbf"+settings), &v))
	if v.Model != "opus" || v.Hooks["PreToolUse"][0].Matcher != "Bash" {
		t.Errorf("read %+v", v)
	}
}

// FuzzEdit compares edits with the values that a plain decoder reads before and after.
func FuzzEdit(f *testing.F) {
	for _, text := range []string{settings, "{}", "{\n}", `{"a":1}`, "{ /* c */ }", "[1, 2, // x\n]", "{\"a\": {\"b\": [ ]}}", "{\r\n\t\"a\": 1, // x\r\n}\r\n", "\xef\xbb\xbf{}", "{ // c\n \"a\": 1, \"b\": 2}", "{\"hooks\":{}\n,\"b\":[]}"} {
		f.Add([]byte(text), "hooks", "PreToolUse", byte(0))
		f.Add([]byte(text), "a", "b", byte(1))
	}
	f.Fuzz(func(t *testing.T, text []byte, one, two string, which byte) {
		var before any
		if Decode(text, &before) != nil || !utf8.ValidString(one) || !utf8.ValidString(two) {
			return
		}
		path := Keys(one, two)
		switch which % 4 {
		case 1:
			path = Keys(one)
		case 2:
			path = Keys(one).With(End())
		case 3:
			path = Path{End()}
		}
		value := map[string]any{"type": "http", "n": []any{1.0, "<x>"}}
		if edited, made, err := Insert(text, path, value); err == nil {
			var after any
			must.Do(t, Decode(edited, &after))
			if want := inserted(before, path, value); !reflect.DeepEqual(after, want) {
				t.Fatalf("%q + %s = %q", text, path, edited)
			}
			back, err := Remove(edited, made)
			must.Do(t, err)
			if string(back) != string(text) {
				t.Fatalf("%q + %s = %q, and removed again %q", text, path, edited, back)
			}
		}
		for _, key := range []string{one, two} {
			edited, err := Remove(text, Keys(key))
			if err != nil {
				continue
			}
			var after any
			must.Do(t, Decode(edited, &after))
			want := copied(before).(map[string]any)
			delete(want, key)
			if !reflect.DeepEqual(after, want) {
				t.Fatalf("%q - %s = %q", text, key, edited)
			}
			edited, err = Replace(text, Keys(key), value)
			must.Do(t, err)
			must.Do(t, Decode(edited, &after))
			want[key] = value
			if !reflect.DeepEqual(after, any(want)) {
				t.Fatalf("%q with another %s = %q", text, key, edited)
			}
		}
	})
}

// copied returns a deep copy of a value.
func copied(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var out any
	_ = json.Unmarshal(text, &out)
	return out
}

// inserted returns the expected document after an insertion.
func inserted(doc any, path Path, value any) any {
	doc = copied(doc)
	if len(path) == 0 {
		return value
	}
	if path[0].isKey() {
		m, ok := doc.(map[string]any)
		if !ok {
			m = map[string]any{}
		}
		m[path[0].key] = inserted(m[path[0].key], path[1:], value)
		return m
	}
	list, _ := doc.([]any)
	return append(list, inserted(nil, path[1:], value))
}
