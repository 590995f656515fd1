package canonical

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// library is what rewrite must agree with.
func library(text []byte) ([]byte, error) {
	value := jsontext.Value(bytes.Clone(text))
	err := value.Canonicalize()
	return value, err
}

func TestRewrite(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{}`, `[]`: `[]`, `"x"`: `"x"`, `true`: `true`, `false`: `false`, `null`: `null`, `0`: `0`, `-17`: `-17`,
		`{"b":1,"a":{"d":[1,2,{"z":0,"y":""}],"c":null}}`: `{"a":{"c":null,"d":[1,2,{"y":"","z":0}]},"b":1}`,
		`{"B":1,"a":2,"A":3,"":4}`:                        `{"":4,"A":3,"B":1,"a":2}`,
		`"a\u003cb\u003e\u0026c"`:                         `"a<b>&c"`,
		`"\"\\\b\f\n\r\t"`:                                `"\"\\\b\f\n\r\t"`,
		`{"text":"grüße 😀"}`:                              `{"text":"grüße 😀"}`,
		`999999999999999`:                                 `999999999999999`,
	} {
		got, ok := rewrite([]byte(in))
		if !ok || string(got) != want {
			t.Errorf("rewrite(%s) = %s, %t, want %s", in, got, ok, want)
		}
	}
}

// What it does not know is left to the library.
func TestRewriteLeavesTheRest(t *testing.T) {
	for _, in := range []string{
		``, ` 1`, `1 `, `{"a": 1}`, `-`, `-0`, `01`, `1.0`, `1e3`, `1E3`, `1000000000000000`, `tru`, `nul`, `x`, `"`, `"\`, `"\u`,
		`"\/"`, `"\u00e9"`, `"\u001f"`, `"\u003C"`, `"\ud83d\ude00"`, "\"\x01\"", "\"\xff\"", `{"a":1,"a":2}`, `{"b":1,"a":2,"b":3}`,
		`{"é":1}`, `{"\n":1}`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{a:1}`, `[1,]`, `[1`, `[1 2]`, `{"a":1`, `1 2`, `{}{}`,
		strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2),
	} {
		if got, ok := rewrite([]byte(in)); ok {
			t.Errorf("rewrite(%s) = %s", in, got)
		}
	}
}

// Whatever it rewrites, the library rewrites in the same way; and Is says the
// same with and without it.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,-2,"\u003c\n"],"a":{"":null}}`, `{"b":1,"a":2,"b":3}`, `[-0,01,1.5]`, "\"\xff\"", `{"a":{"b":{"c":[[[]]]}}}`,
		`{"ab":1,"a":2,"B":3}`, `"\"\\\/\b\u001f"`, `["😀","\ud83d"]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, err := library(text)
		if got, ok := rewrite(text); ok && (err != nil || !bytes.Equal(got, want)) {
			t.Fatalf("rewrite(%q) = %q, the library says %q, %v", text, got, want, err)
		}
		if got, want := Is(text), err == nil && bytes.Equal(want, text); got != want {
			t.Fatalf("Is(%q) = %t, want %t", text, got, want)
		}
	})
}

func BenchmarkMarshal(b *testing.B) {
	v := map[string]any{
		"verdict": map[string]any{"effect": "allow", "determining": []string{"defaults/20-tools.cedar#3"}, "digest": strings.Repeat("ab", 32)},
		"request": map[string]any{"tool": "echo", "session": strings.Repeat("0", 26), "facts": map[string]any{"risk": 5, "host": "example.com"}},
		"list":    []int{1, 2, 3, 4, 5}, "message": "a line of text that is neither short nor long, as most are",
	}
	text, err := json.Marshal(v)
	if err != nil {
		b.Fatal(err)
	}
	for name, fn := range map[string]func([]byte) ([]byte, error){
		"library": library,
		"rewrite": func(text []byte) ([]byte, error) { out, _ := rewrite(text); return out, nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if out, err := fn(text); err != nil || len(out) != len(text) {
					b.Fatalf("%s, %v", out, err)
				}
			}
		})
	}
}
