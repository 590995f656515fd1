package tool

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/canonical"
	"palyra/internal/core/encoded"
	"palyra/internal/core/must"
)

// This is an earlier, slower implementation of the search for keys, without the preliminary
// check: it tries every hint at every position, and every reading of base64. Both find the same
// keys.

func redactTextBefore(text string) string {
	found := secretSpansBefore(text, encodedRounds)
	slices.SortFunc(found, func(a, b span) int { return cmp.Or(a.start-b.start, a.end-b.end) })
	var out strings.Builder
	kept := 0
	for i, s := range found {
		if i == 0 || s.start >= kept {
			out.WriteString(text[kept:s.start])
			out.WriteString(Redaction)
		}
		kept = max(kept, s.end)
	}
	out.WriteString(text[kept:])
	return out.String()
}

func secretSpansBefore(text string, rounds int) []span {
	var found []span
	lowered := asciiLower(text)
	for _, sh := range secretShapes {
		for _, hint := range sh.hints {
			found = sh.find(found, text, lowered, hint)
		}
	}
	if rounds == 0 || len(text) < shortestForm {
		return found
	}
	for r := range encoded.Base64([]byte(text), shortestForm) {
		for _, s := range secretSpansBefore(string(r.Text), rounds-1) {
			s.start, s.end = r.Place(s.start, s.end)
			found = append(found, s)
		}
	}
	return found
}

func hintedBefore(text string) bool {
	lowered := asciiLower(text)
	return slices.ContainsFunc(secretShapes, func(sh shape) bool {
		return slices.ContainsFunc(sh.hints, func(hint string) bool { return strings.Contains(lowered, hint) })
	})
}

func hintedWithinBefore(text []byte, rounds int) bool {
	if rounds == 0 {
		return false
	}
	for r := range encoded.Base64(text, shortestForm) {
		if hintedBefore(string(r.Text)) || hintedWithinBefore(r.Text, rounds-1) {
			return true
		}
	}
	return false
}

func wantSameRedaction(t *testing.T, text string) {
	t.Helper()
	if got, want := RedactText(text), redactTextBefore(text); got != want {
		t.Fatalf("RedactText(%q) = %q, it was %q", text, got, want)
	}
	if got, want := hinted(text), hintedBefore(text); got != want {
		t.Fatalf("hinted(%q) = %t, it was %t", text, got, want)
	}
	if got, want := hintedWithin([]byte(text), encodedRounds), hintedWithinBefore([]byte(text), encodedRounds); got != want {
		t.Fatalf("hintedWithin(%q) = %t, it was %t", text, got, want)
	}
	input := must.Get(canonical.Marshal(map[string]any{"a": text, strings.ToValidUTF8(text, "?"): []string{text}}))(t)
	for _, input := range [][]byte{input, bytes.ReplaceAll(input, []byte("/"), []byte(`\/`))} {
		got, gotFound, gotErr := Redact(input, nil)
		want, wantFound, wantErr := redact(input, nil)
		if !bytes.Equal(got, want) || !slices.Equal(gotFound, wantFound) || gotErr != nil || wantErr != nil {
			t.Fatalf("Redact(%s) = %s, %v, %v; read through: %s, %v, %v", input, got, gotFound, gotErr, want, wantFound, wantErr)
		}
		if clean(input) && len(wantFound) > 0 {
			t.Fatalf("%s is said to be clean, and has %v", input, wantFound)
		}
	}
}

// hidingPlaces returns a text with and without keys in it, in many encodings.
func hidingPlaces(r *rand.Rand, words []string) string {
	encodings := []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding}
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	between := []string{"", " ", "\n", "\r\n", "\\n", "\"", "/", "\\/", "%", "&", "a", "ab", "abc", "\x00", "é", "\n  "}
	text := ""
	for range r.IntN(4) + 1 {
		part := pick(words)
		switch r.IntN(4) {
		case 0:
			part = part[:r.IntN(len(part)+1)]
		case 1:
			noise := make([]byte, r.IntN(60))
			for i := range noise {
				noise[i] = byte(r.Uint32())
			}
			part = string(noise) + part
		case 2:
			part = strings.Map(func(c rune) rune {
				if r.IntN(2) == 0 {
					return c
				}
				return []rune(strings.ToUpper(string(c)))[0]
			}, part)
		}
		for range r.IntN(4) {
			part = encodings[r.IntN(len(encodings))].EncodeToString([]byte(strings.Repeat("x", r.IntN(3)) + part))
			if cut := r.IntN(len(part) + 1); r.IntN(3) == 0 {
				part = part[:cut] + pick(between) + part[cut:]
			}
		}
		text += pick(between) + part
	}
	return text
}

func TestRedactAsBefore(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	words := append(keys(), "Bearer abcdefghijklmnop", "bearer\tabcdefghijklmnop=", "-----BEGIN RSA PRIVATE KEY-----\nabc\n-----END RSA PRIVATE KEY-----",
		"the quick brown fox jumps over the lazy dog, a task-list of theirs", strings.Repeat("0123456789abcdef", 4), "/home/somebody/projects/workspace/internal/main.go", "", "eyj")
	changed := 0
	for range 500 {
		text := hidingPlaces(r, words)
		wantSameRedaction(t, text)
		if RedactText(text) != text {
			changed++
		}
	}
	if changed < 50 {
		t.Errorf("only %d texts had a key", changed)
	}
}

func FuzzRedactAsBefore(f *testing.F) {
	for _, key := range keys() {
		f.Add([]byte(key), byte(1), byte(0))
		f.Add([]byte(key), byte(0), byte(2))
	}
	f.Fuzz(func(t *testing.T, secret []byte, rounds, before byte) {
		text := string(secret)
		for range rounds % 4 {
			text = strings.Repeat("<", int(before%4)) + base64.StdEncoding.EncodeToString([]byte(text))
			before /= 4
		}
		wantSameRedaction(t, text)
	})
}
