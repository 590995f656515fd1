package secret

import (
	"bytes"
	"context"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"mime/quotedprintable"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// vault is a source of fixed values that counts its requests. It returns copies, because the
// caller owns the bytes.
type vault struct {
	values map[string]string
	asked  []string
	given  [][]byte
}

func (v *vault) Secret(_ context.Context, name string) ([]byte, error) {
	v.asked = append(v.asked, name)
	value, ok := v.values[name]
	if !ok {
		return nil, fmt.Errorf("no file /etc/palyra/%s", name)
	}
	b := []byte(value)
	v.given = append(v.given, b)
	return b, nil
}

func rule(t testing.TB, text string) egress.Rule {
	t.Helper()
	return must.Get(egress.ParseRule(text))(t)
}

// used returns an exchange that has used secrets with these values.
func used(t testing.TB, values ...string) *Exchange {
	t.Helper()
	v := &vault{values: map[string]string{}}
	var secrets []egress.Secret
	for i, value := range values {
		name := fmt.Sprintf("s%d", i)
		v.values[name] = value
		secrets = append(secrets, egress.Secret{Name: name, Header: "Authorization", Hosts: []egress.Rule{rule(t, "api.example:443")}, Source: v})
	}
	x := New("test", secrets)
	for _, s := range secrets {
		must.Get(x.value(t.Context(), s))(t)
	}
	return x
}

// awkward has every printable character that some encoding changes.
const awkward = `aZ9 !"#$%&'()*+,-./:;<=>?@[\]^_{|}~` + "`z"

// encoders are the encodings in which servers write values.
var encoders = map[string]func(string) string{
	"plain":        func(s string) string { return s },
	"hex":          func(s string) string { return hex.EncodeToString([]byte(s)) },
	"upper hex":    func(s string) string { return strings.ToUpper(hex.EncodeToString([]byte(s))) },
	"query":        url.QueryEscape,
	"path":         url.PathEscape,
	"lower query":  func(s string) string { return lowerEscapes(url.QueryEscape(s)) },
	"every byte":   func(s string) string { return escape([]byte(s), "", "%%%02X") },
	"JSON":         func(s string) string { b, _ := json.Marshal(s); return string(b) },
	"plain JSON":   plainJSON,
	"slashed JSON": func(s string) string { return strings.ReplaceAll(plainJSON(s), "/", `\/`) },
	"HTML":         html.EscapeString,
	"XML": func(s string) string {
		return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&apos;").Replace(s)
	},
	"QP": func(s string) string {
		var b strings.Builder
		w := quotedprintable.NewWriter(&b)
		w.Binary = true
		_, _ = io.WriteString(w, s)
		_ = w.Close()
		return b.String()
	},
	"UTF-16LE": func(s string) string { return wide(s, 0) },
	"UTF-16BE": func(s string) string { return wide(s, 8) },
}

func plainJSON(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	return b.String()
}

func lowerEscapes(s string) string {
	b := []byte(s)
	for i := range b {
		if b[i] == '%' {
			copy(b[i+1:], bytes.ToLower(b[i+1:i+3]))
		}
	}
	return string(b)
}

func wide(s string, first uint) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.Write([]byte{byte(u >> first), byte(u >> (8 - first))})
	}
	return b.String()
}

// TestScrubEveryEncoding: a value in any common encoding, alone or within a text, is replaced
// by the placeholder.
func TestScrubEveryEncoding(t *testing.T) {
	t.Parallel()
	for _, value := range []string{awkward, "12345678", "ghp_0123456789abcdefghijABCDEFGHIJ", "a+b/c=d&e<f>g", "dGVzdA==dGVzdA=="} {
		x := used(t, value)
		for name, encode := range encoders {
			text := encode(value)
			got := x.ScrubText("before " + text + " after")
			if strings.Contains(got, text) || !strings.Contains(got, "palyra-sec-test-s0") || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
				t.Errorf("%s of %q: %q became %q", name, value, text, got)
			}
		}
		// Control: other text is forwarded unchanged.
		if other := "before 87654321 after"; x.ScrubText(other) != other {
			t.Errorf("%q became %q", other, x.ScrubText(other))
		}
	}
}

// TestScrubBase64: of a value at any position within encoded data, at most one character at
// each end remains.
func TestScrubBase64(t *testing.T) {
	t.Parallel()
	value := "ghp_0123456789>>>???abcdef"
	x := used(t, value)
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		for before := range 7 {
			for after := range 4 {
				whole := strings.Repeat("x", before) + value + strings.Repeat("y", after)
				got := x.ScrubText(encoding.EncodeToString([]byte(whole)))
				left, right, ok := strings.Cut(got, "palyra-sec-test-s0")
				room := len(encoding.EncodeToString(make([]byte, before))) + len(encoding.EncodeToString(make([]byte, after))) + 2
				if !ok || len(left)+len(right) > room {
					t.Errorf("%d before, %d after: %q", before, after, got)
				}
			}
		}
	}
}

// TestScrubBase32: of a value at any position within base32 data, only the characters of the
// adjacent bytes remain.
func TestScrubBase32(t *testing.T) {
	t.Parallel()
	value := "ghp_0123456789>>>???abcdef"
	x := used(t, value)
	for before := range 11 {
		whole := base32.StdEncoding.EncodeToString([]byte(strings.Repeat("x", before) + value))
		left, _, ok := strings.Cut(x.ScrubText(whole), "palyra-sec-test-s0")
		// The first bit of the value is in the character after these.
		if room := before * 8 / 5; !ok || len(left) > room {
			t.Errorf("%d before: %q is left of %q", before, left, whole)
		}
	}
}

// pieces returns a reader that returns a text in chunks of random length.
func pieces(text string, seed uint64) io.Reader {
	r := rand.New(rand.NewPCG(seed, 1))
	var list []io.Reader
	for len(text) > 0 {
		n := 1 + r.IntN(min(len(text), 1+r.IntN(40)))
		list = append(list, strings.NewReader(text[:n]))
		text = text[n:]
	}
	return io.MultiReader(list...)
}

// FuzzScrub: in a text with complete and partial forms of two values, in any chunks, no
// complete form remains, and text without one is unchanged. In the script, bytes below 32 stand
// for forms.
func FuzzScrub(f *testing.F) {
	f.Add("aaaaaaaab", "aaaaaaab", []byte("x\x00y\x01\x02aaaaaaaaaab"), uint64(1))
	f.Add("12345678", "345678123", []byte("12345678123 \x03\x04 123456\x00"), uint64(2))
	f.Add(awkward, "secretsecret", []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13"), uint64(3))
	f.Fuzz(func(t *testing.T, first, second string, script []byte, seed uint64) {
		values := []string{first, second}
		for _, v := range values {
			if checkValue([]byte(v)) != nil || len(v) > 40 || len(script) > 200 {
				return // not in the scope of this test
			}
		}
		x := used(t, values...)
		var text strings.Builder
		for i, c := range script {
			if c >= 32 {
				text.WriteByte(c)
				continue
			}
			forms := encodings([]byte(values[c%2]))
			form := forms[int(c)%len(forms)]
			if i%3 == 2 {
				form = form[:len(form)*int(c)/32]
			}
			text.Write(form)
		}
		v := x.finds.Load()
		none := len(v.find([]byte(text.String()))) == 0
		got := must.Get(io.ReadAll(iotest.DataErrReader(x.Scrub(pieces(text.String(), seed)))))(t)
		for how, got := range map[string]string{"pieces": string(got), "whole": x.ScrubText(text.String())} {
			if none && got != text.String() {
				t.Errorf("%q, %s: holds no value and becomes %q", text.String(), how, got)
			}
			// The text before and after a value could form a value together.
			for shown := range strings.SplitSeq(got, "palyra-sec-test-s") {
				if len(v.all([]byte(shown))) > 0 {
					t.Errorf("%q, %s: %q", text.String(), how, got)
				}
			}
		}
	})
}

func BenchmarkScrub(b *testing.B) {
	x := used(b, "ghp_0123456789abcdefghijABCDEFGHIJ", "sk-another-key-of-some-length-0123456789", "12345678")
	r := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 1<<20)
	const alphabet = "etaoin shrdlucmfwypvbgkqjxz0123456789\n,.-{}\":"
	for i := range text {
		text[i] = alphabet[r.IntN(len(alphabet))]
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if n, err := io.Copy(io.Discard, x.Scrub(bytes.NewReader(text))); err != nil || n != int64(len(text)) {
			b.Fatal(n, err)
		}
	}
}

func BenchmarkWatch(b *testing.B) {
	x := used(b, "ghp_0123456789abcdefghijABCDEFGHIJ")
	text := bytes.Repeat([]byte("the quick brown fox jumps over the lazy dog, palyra or not\n"), 20_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if n, err := io.Copy(io.Discard, x.Watch(bytes.NewReader(text))); err != nil || n != int64(len(text)) {
			b.Fatal(n, err)
		}
	}
}
