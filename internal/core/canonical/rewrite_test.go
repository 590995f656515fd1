package canonical

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"palyra/internal/core/must"
)

// library returns the text that rewrite must return.
func library(text []byte) ([]byte, error) {
	value := jsontext.Value(bytes.Clone(text))
	err := value.Canonicalize()
	return value, err
}

// sameMembers compares Members with encoding/json.
func sameMembers(t *testing.T, text []byte) {
	t.Helper()
	got := map[string]string{}
	if !Members(text, func(name, value []byte) { got[string(name)] = string(value) }) {
		return
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(text, &want); err != nil || len(got) != len(want) || !Is(text) {
		t.Fatalf("Members(%q) are %q, those of encoding/json %q, %v", text, got, want, err)
	}
	for name, value := range want {
		if got[name] != string(value) {
			t.Fatalf("Members(%q): %q is %q, want %q", text, name, got[name], value)
		}
	}
}

// strictly returns the text that JSON must return: check, then the library.
func strictly(text []byte) ([]byte, error) {
	if len(text) > MaxSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(text))
	}
	if err := check(text); err != nil {
		return nil, err
	}
	return library(text)
}

func TestRewrite(t *testing.T) {
	t.Parallel()
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

// The function rewrite leaves texts that it does not support to the library.
func TestRewriteLeavesTheRest(t *testing.T) {
	t.Parallel()
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

// The library rewrites every text that rewrite supports in the same way, and Is has the same
// result with and without rewrite.
func FuzzRewrite(f *testing.F) {
	for _, seed := range []string{
		`{"b":[1,-2,"\u003c\n"],"a":{"":null}}`, `{"b":1,"a":2,"b":3}`, `[-0,01,1.5]`, "\"\xff\"", `{"a":{"b":{"c":[[[]]]}}}`,
		strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth), strings.Repeat(`{"a":`, MaxDepth+1) + "1" + strings.Repeat("}", MaxDepth+1),
		"eight by\x7fes\x00", `"12345678\u0000"`, `"0123456789<\n"`, "\"0123456\xe9\"", `{"aaaaaaaab":1,"aaaaaaaaa":2}`,
		`{"ab":1,"a":2,"B":3}`, `"\"\\\/\b\u001f"`, `["😀","\ud83d"]`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		want, err := library(text)
		if got, ok := rewrite(text); ok && (err != nil || !bytes.Equal(got, want)) {
			t.Fatalf("rewrite(%q) = %q, the library says %q, %v", text, got, want, err)
		}
		if plain(text) && (err != nil || !bytes.Equal(text, want)) {
			t.Fatalf("%q is said to be plain, the library says %q, %v", text, want, err)
		}
		sameMembers(t, text)
		if got, want := Valid(text), json.Valid(text); got != want {
			t.Fatalf("Valid(%q) = %t, want %t", text, got, want)
		}
		strict, strictErr := strictly(text)
		if got, err := JSON(text); !bytes.Equal(got, strict) || fmt.Sprint(err) != fmt.Sprint(strictErr) {
			t.Fatalf("JSON(%q) = %q, %v, want %q, %v", text, got, err, strict, strictErr)
		}
		quoted, quoteErr := jsontext.AppendQuote([]byte("x"), string(text))
		if got, err := AppendString([]byte("x"), string(text)); quoteErr == nil && !bytes.Equal(got, quoted) || fmt.Sprint(err) != fmt.Sprint(quoteErr) {
			t.Fatalf("AppendString(%q) = %q, %v, want %q, %v", text, got, err, quoted, quoteErr)
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
	must.Do(b, err)
	raw := must.Get(Marshal(v))(b)
	for name, fn := range map[string]func() ([]byte, error){
		"two steps": func() ([]byte, error) { return twoSteps(v) },
		"one pass":  func() ([]byte, error) { return Marshal(v) },
		"digest":    func() ([]byte, error) { _, err := DigestOf(v); return raw, err },
		"raw":       func() ([]byte, error) { return Marshal(json.RawMessage(raw)) },
		"library":   func() ([]byte, error) { return library(text) },
		"rewrite":   func() ([]byte, error) { out, _ := rewrite(text); return out, nil },
		"is":        func() ([]byte, error) { _ = Is(raw); return raw, nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if out, err := fn(); err != nil || len(out) != len(text) {
					b.Fatalf("%s, %v", out, err)
				}
			}
		})
	}
}
