package tool

import (
	"encoding/base64"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
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

// TestRedactFolded: a key in a file name is redacted in both spellings of the path.
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

// FuzzRedactText compares the search by hints with a search for every form at every position:
// both find the same secrets.
func FuzzRedactText(f *testing.F) {
	for _, s := range []string{
		"AKIAABCDEFGHIJKLMNOP", "xAKIAABCDEFGHIJKLMNOP", "Bearer abcdefghijklmnop=", "-----BEGIN PRIVATE KEY-----\nx",
		"ghp_" + strings.Repeat("a", 36), "task-sk-" + strings.Repeat("b", 20), "ÄAKIAABCDEFGHIJKLMNOP", "sk-sk-sk-sk-sk-sk-sk-sk-sk-",
		"Bearer ghp_" + strings.Repeat("a", 36), "Sk-Ant-" + strings.Repeat("b", 20),
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		secret := make([]bool, len(text))
		for _, sh := range secretShapes {
			for at := 0; at < len(text); at++ {
				loc := sh.form.FindStringIndex(text[at:])
				if loc == nil || sh.words && at > 0 && letter(text[at-1]) {
					continue
				}
				for i := range loc[1] {
					secret[at+i] = true
				}
				at += loc[1] - 1
			}
		}
		var want strings.Builder
		for i := range len(text) {
			if !secret[i] {
				want.WriteByte(text[i])
			}
		}
		got := RedactText(text)
		if len(text) < 27 && strings.ReplaceAll(got, Redaction, "") != strings.ReplaceAll(want.String(), Redaction, "") {
			t.Errorf("RedactText(%q) = %q, want %q around it", text, got, want.String())
		}
		if again := RedactText(got); again != got {
			t.Errorf("redacting twice changes %q to %q", got, again)
		}
	})
}

// keys returns one key of each form.
func keys() []string {
	token := strings.Repeat("aB3", 12)
	return []string{
		awsKey, "ghp_" + token, "github_pat_" + token, "glpat-" + token, "xoxb-" + token, "sk-ant-" + token, "sk-proj-" + token, "AIza" + token[:35],
		"pal_" + strings.Repeat("0a", 13) + "_" + strings.Repeat("7f3a", 16), "eyJ" + token + ".eyJ" + token + "." + token,
	}
}

// TestRedactInsideText: a key is redacted regardless of the text around it.
func TestRedactInsideText(t *testing.T) {
	t.Parallel()
	for _, key := range keys() {
		for _, before := range []string{"", "x", "X", "_", "KEY=", "key_", "9", "/", "ä", "xx-", "\"", "token:", "https://u:"} {
			if got := RedactText(before + key); got != before+Redaction {
				t.Errorf("%q becomes %q", before+key, got)
			}
			if got := RedactText(before + key + "@host and more"); !strings.HasPrefix(got, before+Redaction) || strings.Contains(got, key[len(key)-8:]) {
				t.Errorf("%q becomes %q", before+key, got)
			}
		}
	}
	for _, key := range []string{"sk-" + strings.Repeat("b", 20), "pal_x1_" + strings.Repeat("b", 20)} {
		for _, before := range []string{"", "_", "KEY=", "9"} {
			if got := RedactText(before + key); got != before+Redaction {
				t.Errorf("%q becomes %q", before+key, got)
			}
		}
	}
	for _, word := range []string{
		"task-550e8400-e29b-41d4-a716-446655440000", "disk-0123456789abcdef0123456789", "principal_name_of_somebody_with_a_long_one",
		"czechoslovakiaandothers1234", "forbearer of-something-rather-long", "foxox-" + strings.Repeat("b", 3),
	} {
		if got := RedactText(word); got != word {
			t.Errorf("%q is taken for a key", word)
		}
	}
}

// TestRedactBase64: a key in content_base64, or in a longer text, cannot be decoded after the
// redaction. Text without a key is unchanged.
func TestRedactBase64(t *testing.T) {
	t.Parallel()
	for _, key := range append(keys(), "Bearer abcdefghijklmnop") {
		for before := range 5 {
			content := strings.Repeat("<", before) + key + "\nand more\n"
			for name, encoding := range map[string]*base64.Encoding{"std": base64.StdEncoding, "raw": base64.RawStdEncoding, "URL": base64.RawURLEncoding} {
				text := encoding.EncodeToString([]byte(content))
				twice := base64.StdEncoding.EncodeToString([]byte("twice " + text))
				for _, text := range []string{text, "see key/" + text + " there", text[:40] + "\r\n" + text[40:], twice} {
					got := RedactText(text)
					if !strings.Contains(got, Redaction) || len(got) > len(text)-len(key)+len(Redaction) {
						t.Errorf("%s, after %d: %q becomes %q", name, before, text, got)
					}
					input := must.Get(json.Marshal(map[string]string{"content_base64": text}))(t)
					clean, done, err := Redact(input, nil)
					if err != nil || !slices.Equal(done, []string{"/content_base64"}) || !strings.Contains(string(clean), Redaction) {
						t.Errorf("%s, after %d: hidden are %v of %s, %v", name, before, done, clean, err)
					}
				}
			}
		}
	}
	plain := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("nothing to see here, a task-list and bearers of news\n", 100)))
	if got := RedactText(plain); got != plain {
		t.Errorf("%q becomes %q", plain, got)
	}
}

// BenchmarkRedact measures the cost of a call's arguments without a key.
func BenchmarkRedact(b *testing.B) {
	binary := make([]byte, 700<<10)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range binary {
		binary[i] = byte(r.Uint32())
	}
	for name, value := range map[string]string{
		"small": "README.md", "text": strings.Repeat("the quick brown fox jumps over the lazy dog\n", 20_000), "base64": base64.StdEncoding.EncodeToString(binary),
		"digests": strings.Repeat("sha256:"+strings.Repeat("0123456789abcdef", 4)+" is the digest of the call\n", 10),
	} {
		input := must.Get(json.Marshal(map[string]string{"path": "notes/a.txt", "content": value, "workspace": "main"}))(b)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(input)))
			for b.Loop() {
				if _, found, err := Redact(input, nil); err != nil || len(found) > 0 {
					b.Fatal(found, err)
				}
			}
		})
	}
}

// All members except the listed ones are redacted, wherever the value is nested.
func TestRedactAllMembersBut(t *testing.T) {
	t.Parallel()
	paths := []string{"/h/*", "!/h/shown"}
	for input, want := range map[string]string{
		`{"a":"x","h":{"HIDDEN":{"b":"x"},"hidden":"x","shown":"x"}}`: `{"a":"x","h":{"HIDDEN":"[redacted]","hidden":"[redacted]","shown":"x"}}`,
		`{"h":["x",["x"]]}`:                 `{"h":["[redacted]","[redacted]"]}`,
		`{"i":{"h":{"a":1}}}`:               `{"i":{"h":{"a":1}}}`,
		`{"h":{"!":"x","*":"x","a/b":"x"}}`: `{"h":{"!":"[redacted]","*":"[redacted]","a/b":"[redacted]"}}`,
	} {
		if got, _, err := Redact(json.RawMessage(input), paths); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", input, got, err)
		}
		within := json.RawMessage(`{"in":` + input + `}`)
		if got, _, err := Redact(within, PathsBelow("/in", paths)); err != nil || string(got) != `{"in":`+want+`}` {
			t.Errorf("%s: %s, %v", within, got, err)
		}
	}
}
