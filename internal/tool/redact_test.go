package tool

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"palyra/internal/must"
)

func TestRedact(t *testing.T) {
	t.Parallel()
	const input = `{"a/b":"x","keys":["k1","k2"],"n":12.5,"user":{"password":"hunter2"}}`
	for _, c := range []struct {
		name     string
		pointers []string
		want     string
		done     []string
	}{
		{"none", nil, input, nil},
		{"absent", []string{"/nothing", "/keys/7", "/n/deeper"}, input, nil},
		{"nested", []string{"/user/password"}, `{"a/b":"x","keys":["k1","k2"],"n":12.5,"user":{"password":"[redacted]"}}`, []string{"/user/password"}},
		{"list", []string{"/keys/1"}, `{"a/b":"x","keys":["k1","[redacted]"],"n":12.5,"user":{"password":"hunter2"}}`, []string{"/keys/1"}},
		{"escaped", []string{"/a~1b"}, `{"a/b":"[redacted]","keys":["k1","k2"],"n":12.5,"user":{"password":"hunter2"}}`, []string{"/a~1b"}},
		{"no pointer", []string{"n"}, input, nil},
		{"whole", []string{""}, `"[redacted]"`, []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, done, err := Redact(json.RawMessage(input), c.pointers)
			if err != nil || string(got) != c.want || !slices.Equal(done, c.done) {
				t.Errorf("Redact = %s, %v, %v; want %s, %v", got, done, err, c.want, c.done)
			}
		})
	}
}

const awsKey = "AKIAIOSFODNN7EXAMPLE"

func TestRedactNames(t *testing.T) {
	t.Parallel()
	input := `{"AKIAIOSFODNN7EXAMPLF":{"x":1},"` + awsKey + `":{"secret":"s"}}`
	got, done, err := Redact(json.RawMessage(input), []string{"/" + awsKey + "/secret"})
	want := `{"[redacted]":{"secret":"[redacted]"},"[redacted] 2":{"x":1}}`
	if err != nil || string(got) != want {
		t.Errorf("Redact = %s, %v; want %s", got, err, want)
	}
	if !slices.Equal(done, []string{"/[redacted]", "/[redacted]/secret"}) {
		t.Errorf("pointers %v", done)
	}
}

func TestRedactText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                       "",
		"plain text, sk-short":   "plain text, sk-short",
		"+id = " + awsKey + "\n": "+id = [redacted]\n",
		"-" + awsKey:             "-[redacted]",
		"+-----BEGIN RSA PRIVATE KEY-----\n+abc\n+-----END RSA PRIVATE KEY-----\n+end": "+[redacted]\n+end",
		"Authorization: Bearer abcdefghijklmnop":                                       "Authorization: [redacted]",
	} {
		got := RedactText(text)
		if got != want {
			t.Errorf("RedactText(%q) = %q, want %q", text, got, want)
		}
		if again := RedactText(got); again != got {
			t.Errorf("redacting twice changes %q to %q", got, again)
		}
	}
}

// TestRedactFolded shows that a key in the name of a file is hidden in both
// spellings of the path.
func TestRedactFolded(t *testing.T) {
	t.Parallel()
	token := strings.Repeat("aB3", 12)
	for _, key := range []string{
		awsKey, "ghp_" + token, "github_pat_" + token, "glpat-" + token, "xoxb-" + token, "sk-ant-" + token, "AIza" + token[:35],
		"pal_x1_" + token, "eyJ" + token + ".eyJ" + token + "." + token, "Bearer " + token,
		"-----BEGIN RSA PRIVATE KEY-----" + token + "-----END RSA PRIVATE KEY-----",
	} {
		facts := must.Get(json.Marshal(Facts{Path: "notes/" + key, PathFolded: "notes/" + strings.ToLower(key)}))(t)
		clean, done, err := Redact(facts, nil)
		if err != nil || !slices.Equal(done, []string{"/path", "/path_folded"}) {
			t.Errorf("%s: hidden are %v of %s, %v", key, done, clean, err)
		}
	}
	for _, word := range []string{"asia", "asia-pacific", "asiapacific/northeast", "eyj.eyj.x", "sk-small"} {
		if got := RedactText(word); got != word {
			t.Errorf("%q is taken for a key", word)
		}
	}
}

// FuzzRedactText compares the search by hints with a plain search for the
// forms: both find the same secrets.
func FuzzRedactText(f *testing.F) {
	for _, s := range []string{
		"AKIAABCDEFGHIJKLMNOP", "xAKIAABCDEFGHIJKLMNOP", "Bearer abcdefghijklmnop=", "-----BEGIN PRIVATE KEY-----\nx",
		"ghp_" + strings.Repeat("a", 36), "task-sk-" + strings.Repeat("b", 20), "ÄAKIAABCDEFGHIJKLMNOP", "sk-sk-sk-sk-sk-sk-sk-sk-sk-",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := text
		for _, sh := range secretShapes {
			boundary := `\b`
			if sh.anywhere {
				boundary = ""
			}
			plain := regexp.MustCompile(boundary + strings.TrimPrefix(sh.form.String(), "^"))
			want = plain.ReplaceAllLiteralString(want, Redaction)
		}
		if got := RedactText(text); got != want {
			t.Errorf("RedactText(%q) = %q, want %q", text, got, want)
		}
	})
}
