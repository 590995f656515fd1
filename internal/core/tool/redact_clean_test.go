package tool

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// A text that passes without being parsed contains nothing that would be redacted.
func FuzzRedact(f *testing.F) {
	token := "ghp_" + strings.Repeat("a", 36)
	for _, seed := range []string{
		`{"a":"plain","b":[1,true,null]}`, `{"a":"` + token + `"}`, `{"` + token + `":1}`, `{"a":"\u0067hp_` + strings.Repeat("a", 36) + `"}`,
		`["BEARER aaaaaaaaaaaaaaaaaaaaaaaa","bearer\taaaaaaaaaaaaaaaaaaaaaaaa"]`, `{"a":"-----BEGIN PRIVATE KEY-----\nx"}`, `{`, `{} x`, `"\u0041"`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, gotFound, gotErr := Redact(text, nil)
		if len(text) == 0 {
			return
		}
		want, wantFound, wantErr := redact(text, nil)
		if !bytes.Equal(got, want) || !slices.Equal(gotFound, wantFound) || (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("Redact(%q) = %q, %v, %v; read through: %q, %v, %v", text, got, gotFound, gotErr, want, wantFound, wantErr)
		}
	})
}

func TestCleanReadsEscapes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"a":"plain"}`: true, `"a\nb\"c"`: true, `"\u0067hp_"`: false, `"GHP_"`: false, `"see eyJ"`: false, `"task-1"`: false, `"tas-1"`: true,
	} {
		if got := clean([]byte(text)); got != want {
			t.Errorf("clean(%s) = %t, want %t", text, got, want)
		}
	}
}
