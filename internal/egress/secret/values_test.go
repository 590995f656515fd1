package secret

import (
	"bytes"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// written are forms with too many variants for a list; a random choice selects the variant.
var written = map[string]func(s string, r *rand.Rand) string{
	"base64, 64 columns":       func(s string, r *rand.Rand) string { return columns(within(s, r), 64, "\n") },
	"base64, 76 columns, MIME": func(s string, r *rand.Rand) string { return columns(within(s, r), 76, "\r\n") },
	"base64, some columns":     func(s string, r *rand.Rand) string { return columns(within(s, r), 16+r.IntN(80), "\n") },
	"base64 in YAML":           func(s string, r *rand.Rand) string { return columns(within(s, r), 64, "\n    ") },
	"base64 in JSON":           func(s string, r *rand.Rand) string { return plainJSON(columns(within(s, r), 64, "\n")) },
	"base64 in a URL":          func(s string, r *rand.Rand) string { return url.QueryEscape(within(s, r)) },
	"base64 twice":             func(s string, r *rand.Rand) string { return within(within(s, r), r) },
	"base64 twice, in columns": func(s string, r *rand.Rand) string {
		return columns(within(columns(within(s, r), 76, "\n"), r), 76, "\n")
	},
	"base64 of JSON":   func(s string, r *rand.Rand) string { return within(plainJSON(s), r) },
	"base64 of UTF-16": func(s string, r *rand.Rand) string { return within(wide(s, 0), r) },
	"base64 of hex":    func(s string, r *rand.Rand) string { return within(hex.EncodeToString([]byte(s)), r) },
	"hex of base64":    func(s string, r *rand.Rand) string { return hex.EncodeToString([]byte(within(s, r))) },
	"hex, mixed":       func(s string, r *rand.Rand) string { return mixed(hex.EncodeToString([]byte(s)), r) },
	"hex with colons": func(s string, r *rand.Rand) string {
		return mixed(strings.TrimSuffix(escape([]byte(s), "", "%02x:"), ":"), r)
	},
	"hex with blanks": func(s string, _ *rand.Rand) string { return fmt.Sprintf("% x", s) },
	"hex in Go": func(s string, _ *rand.Rand) string {
		return strings.TrimPrefix(fmt.Sprintf("%#v", []byte(s)), "[]byte")
	},
	"base32":                    func(s string, r *rand.Rand) string { return within32(s, r) },
	"base32 in small letters":   func(s string, r *rand.Rand) string { return strings.ToLower(within32(s, r)) },
	"base32 in lines":           func(s string, r *rand.Rand) string { return columns(within32(s, r), 76, "\n") },
	"base32 of base64":          func(s string, r *rand.Rand) string { return within32(within(s, r), r) },
	"base64 of base32":          func(s string, r *rand.Rand) string { return within(within32(s, r), r) },
	"base32 in a Makefile":      func(s string, r *rand.Rand) string { return columns(within32(s, r), 64, "\r\n  ") },
	"base64 with separators":    func(s string, r *rand.Rand) string { return separated(within(s, r), r) },
	"hex with separators":       func(s string, r *rand.Rand) string { return separated(hex.EncodeToString([]byte(s)), r) },
	"upper hex with separators": func(s string, r *rand.Rand) string { return separated(fmt.Sprintf("%X", s), r) },
	"hexdump -C":                func(s string, r *rand.Rand) string { return "\n" + hex.Dump([]byte(inside(s, r))) },
	"hexdump -C in JSON":        func(s string, r *rand.Rand) string { return "\n" + plainJSON("\n"+hex.Dump([]byte(inside(s, r)))) },
	"hexdump of base64":         func(s string, r *rand.Rand) string { return "\n" + hex.Dump([]byte(within(s, r))) },
	"hexdump": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 16, group: 2, reversed: true})
	},
	"hexdump -x": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 16, group: 2, reversed: true, gap: 3})
	},
	"xxd": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 16, group: 2, colon: ":", chars: true})
	},
	"xxd -e": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 16, group: 4, reversed: true, colon: ":", chars: true})
	},
	"xxd -g1 -c8": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 8, group: 1, colon: ":", chars: true})
	},
	"xxd -c2": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 2, group: 1, colon: ":", chars: true})
	},
	"xxd -c24": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 24, group: 2, colon: ":", chars: true})
	},
	"od -tx1": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 16, group: 1, octal: true})
	},
	"od -An -tx1": func(s string, r *rand.Rand) string { return "\n" + columns(fmt.Sprintf("% x", inside(s, r)), 48, "\n") },
	"od -tx8": func(s string, r *rand.Rand) string {
		return dump(inside(s, r), layout{size: 16, group: 8, reversed: true, octal: true})
	},
	"hex of OpenSSL":  func(s string, _ *rand.Rand) string { return columns(escape([]byte(s), "", "%02x:"), 45, "\n    ") },
	"hex of xxd":      func(s string, _ *rand.Rand) string { return columns(hex.EncodeToString([]byte(s)), 60, "\n") },
	"hex in fours":    func(s string, _ *rand.Rand) string { return columns(hex.EncodeToString([]byte(s)), 4, " ") },
	"some in percent": func(s string, r *rand.Rand) string { return some(s, r, "%%%02x", "%%%02X") },
	"percent twice":   func(s string, r *rand.Rand) string { return some(some(s, r, "%%%02x"), r, "%%%02X") },
	"percent of JSON": func(s string, r *rand.Rand) string {
		return some(some(strings.ReplaceAll(s, `\`, `\\`), r, `\u%04x`), r, "%%%02X")
	},
	"some in JSON": func(s string, r *rand.Rand) string {
		return some(strings.ReplaceAll(s, `\`, `\\`), r, `\u%04x`, `\u%04X`)
	},
	"JSON in JSON": func(s string, _ *rand.Rand) string { b, _ := json.Marshal(plainJSON(s)); return string(b) },
	"JSON in JSON, slashed": func(s string, _ *rand.Rand) string {
		b, _ := json.Marshal(strings.ReplaceAll(plainJSON(s), "/", `\/`))
		return string(b)
	},
	"some in HTML": func(s string, r *rand.Rand) string {
		return some(strings.ReplaceAll(s, "&", "&amp;"), r, "&#%d;", "&#x%x;", "&#X%04X;")
	},
	"HTML in JSON": func(s string, _ *rand.Rand) string { b, _ := json.Marshal(html.EscapeString(s)); return string(b) },
	"some in string literals": func(s string, r *rand.Rand) string {
		return some(strings.ReplaceAll(s, `\`, `\\`), r, `\x%02x`, `\%03o`, `\u{%x}`, `\U%08x`)
	},
	"octal":           func(s string, _ *rand.Rand) string { return escape([]byte(s), "", `\%03o`) },
	"numbers":         func(s string, _ *rand.Rand) string { return fmt.Sprint([]byte(s)) },
	"numbers in JSON": func(s string, _ *rand.Rand) string { return strings.ReplaceAll(fmt.Sprint([]byte(s)), " ", ",") },
	"QP with soft ends": func(s string, r *rand.Rand) string {
		return columns(some(strings.ReplaceAll(s, "=", "=3D"), r, ""), 20, "=\r\n")
	},
}

// listed are the forms of written that a list also contains, or may contain.
var listed = []string{"octal", "numbers", "numbers in JSON", "base64 in a URL"}

// within returns base64 of bytes that contain a text.
func within(s string, r *rand.Rand) string {
	e := []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding}[r.IntN(4)]
	return e.EncodeToString([]byte(strings.Repeat("<", r.IntN(4)) + s + strings.Repeat(">", r.IntN(4))))
}

// within32 returns base32 of bytes that contain a text; inside returns those bytes.
func within32(s string, r *rand.Rand) string {
	return base32.StdEncoding.EncodeToString([]byte(inside(s, r)))
}

func inside(s string, r *rand.Rand) string {
	return strings.Repeat("<", r.IntN(5)) + s + strings.Repeat(">", r.IntN(5))
}

// separated puts a separator between groups of characters, with at least two whole groups.
func separated(s string, r *rand.Rand) string {
	between := []string{".", " ", ":", "|", "~", ", ", "'"}
	return columns(s, 1+r.IntN(min(8, len(s)/3)), between[r.IntN(len(between))])
}

// layout is the layout of a dump.
type layout struct {
	// size is the number of bytes per line, and group the number per group.
	size, group int
	// reversed means that groups start with their last byte.
	reversed bool
	// colon follows an offset, octal makes offsets octal, and gap adds blanks before a group.
	colon string
	octal bool
	gap   int
	// chars means that lines end with their characters.
	chars bool
}

// dump formats a text as hexdump, xxd and od do.
func dump(s string, l layout) string {
	var out strings.Builder
	for offset := 0; offset < len(s); offset += l.size {
		line := s[offset:min(offset+l.size, len(s))]
		format := "\n%08x%s"
		if l.octal {
			format = "\n%07o%s"
		}
		start := out.Len()
		fmt.Fprintf(&out, format, offset, l.colon)
		for group := range slices.Chunk([]byte(line), l.group) {
			if l.reversed {
				group = slices.Clone(group)
				slices.Reverse(group)
			}
			fmt.Fprintf(&out, "%s%x", strings.Repeat(" ", 1+l.gap), group)
		}
		if l.chars {
			full := 10 + len(l.colon) - 1 + l.size*2 + (l.size+l.group-1)/l.group - 1
			fmt.Fprintf(&out, "%s  %s", strings.Repeat(" ", max(0, start+1+full-out.Len())), line)
		}
	}
	return out.String() + "\n"
}

func columns(s string, n int, end string) string {
	var lines []string
	for line := range slices.Chunk([]byte(s), n) {
		lines = append(lines, string(line))
	}
	return strings.Join(lines, end)
}

// some writes each character of a text in one of the formats, or unchanged.
func some(s string, r *rand.Rand, formats ...string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		// A character that starts an escape is not written in its own escape format.
		if n := r.IntN(len(formats) + 1); n < len(formats) && formats[n] != "" && (c != '\\' || formats[n][0] != '\\') && (c != '&' || formats[n][0] != '&') {
			fmt.Fprintf(&b, formats[n], c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

func mixed(s string, r *rand.Rand) string {
	b := []byte(s)
	for i := range b {
		if r.IntN(2) == 0 {
			b[i] = bytes.ToUpper(b[i : i+1])[0]
		}
	}
	return string(b)
}

const shown = "[the key]"

func valuesOf(t testing.TB, values ...string) *Values {
	t.Helper()
	var list []Value
	for _, v := range values {
		list = append(list, Value{[]byte(v), shown})
	}
	return must.Get(NewValues(list...))(t)
}

// left returns what scrubbing leaves of a form in the middle of a text, in chunks with random
// borders; ok reports whether the value was replaced.
func left(t testing.TB, v *Values, form string, seed uint64) (rest string, ok bool) {
	t.Helper()
	got := string(must.Get(io.ReadAll(v.Scrub(pieces("before <"+form+"> after", seed))))(t))
	if whole := v.Text("before <" + form + "> after"); whole != got {
		t.Errorf("%q: %q in pieces, %q as a whole", form, got, whole)
	}
	got, begins := strings.CutPrefix(got, "before <")
	got, ends := strings.CutSuffix(got, "> after")
	rest = strings.Replace(got, shown, "", 1)
	return rest, begins && ends && rest != got
}

// edges is the maximum remainder of a form: the data around the value within base64, encoded up
// to three times, with quotes and backslashes of JSON. In a dump, it is the start of the first
// line and a line after the value.
const edges = 128

// TestWrittenForms: a value that is found by decoding, and is in no list, is found wherever the
// text is cut. The control has only the list and finds none.
func TestWrittenForms(t *testing.T) {
	t.Parallel()
	value := "sk-0123456789/abcdef+ghijklmnop=qrstuvwxyz&ABCDEFGHIJKLMNOP?QRSTUV\\WXYZ-end\"<"
	v, r := valuesOf(t, value), rand.New(rand.NewPCG(1, 1))
	for _, name := range slices.Sorted(maps.Keys(written)) {
		for range 20 {
			form := written[name](value, r)
			if rest, ok := left(t, v, form, r.Uint64()); !ok || len(rest) > edges {
				t.Errorf("%s: of %q is left %q", name, form, rest)
			}
			if found := v.all([]byte(form)); len(found) > 0 && !slices.Contains(listed, name) {
				t.Errorf("the control finds %s: %q", name, form)
			}
		}
	}
	for name, encode := range encoders {
		for cut := range len(encode(value)) {
			form := encode(value)
			got := must.Get(io.ReadAll(v.Scrub(io.MultiReader(strings.NewReader(form[:cut]), strings.NewReader(form[cut:])))))(t)
			if !strings.Contains(string(got), shown) || len(got) > len(shown)+edges {
				t.Errorf("%s, cut at %d: %q", name, cut, got)
			}
		}
	}
}

// FuzzValues: no value of at least 8 bytes is forwarded in any encoding.
func FuzzValues(f *testing.F) {
	names := slices.Sorted(maps.Keys(written))
	for i := range names {
		f.Add("ghp_0123456789abcdefghijABCDEFGHIJ", uint8(i), uint64(i))
		f.Add(awkward, uint8(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, value string, how uint8, seed uint64) {
		if checkValue([]byte(value)) != nil || len(value) > 200 || strings.Contains(value, "before") || strings.ContainsAny(value, "%\\&") && value != awkward {
			return // an escape within a partly escaped value is ambiguous
		}
		r := rand.New(rand.NewPCG(seed, 2))
		name := names[int(how)%len(names)]
		form := written[name](value, r)
		if strings.Contains(name, "JSON") && strings.Contains(name, "some") && strings.Contains(value, `"`) {
			return
		}
		if rest, ok := left(t, valuesOf(t, value), form, seed); !ok || len(rest) > edges {
			t.Errorf("%s: of %q is left %q", name, form, rest)
		}
	})
}

// TestValues: values that a program can receive although no header can contain them, and values
// that are refused.
func TestValues(t *testing.T) {
	t.Parallel()
	seed := ed25519.NewKeyFromSeed([]byte("0123456789abcdef0123456789abcdef"))
	key := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(seed))(t)}))
	long := strings.Repeat("0123456789", 1000)
	v := valuesOf(t, key, "p\u00e4ssw\u00f6rd", long)
	line := strings.Split(key, "\n")[1]
	for text, want := range map[string]string{
		key:                                strings.Replace(key, line, shown, 1),
		strings.ReplaceAll(key, "\n", " "): strings.ReplaceAll(strings.Replace(key, line, shown, 1), "\n", " "),
		"p\u00e4ssw\u00f6rd!":              shown + "!",
		`"p\u00e4ssw\u00f6rd"`:             `"` + shown + `"`,
		"p%C3%A4ssw%c3%b6rd":               shown,
		"P\u00c4SSW\u00d6RD":               shown,
		"-----BEGIN PRIVATE KEY-----":      "-----BEGIN PRIVATE KEY-----",
	} {
		if got := v.Text(text); got != want {
			t.Errorf("%q becomes %q", text, got)
		}
	}
	if got := v.Text(long); strings.Contains(got, "0123456789") && len(got) > len(long)/4 {
		t.Errorf("of a long value is left %d bytes", len(got))
	}
	if got := v.Text(base64.StdEncoding.EncodeToString([]byte(key))); !strings.Contains(got, shown) {
		t.Errorf("base64 of PEM becomes %q", got)
	}
	for _, short := range []string{"", "1234567", "1234567\n1234567", "-----BEGIN PRIVATE KEY-----\n"} {
		if _, err := NewValues(Value{[]byte(short), shown}); reason.Of(err) != reason.ConfigInvalid || strings.Contains(err.Error(), "1234567") {
			t.Errorf("%q: %v", short, err)
		}
	}
	var none *Values
	if none.Text("text") != "text" || must.Get(none.Scrubber().Next([]byte("text"), false))(t) == nil {
		t.Error("none")
	}
	v.Wipe()
	if got := v.Text(key); got != key {
		t.Errorf("wiped, it gives %q", got)
	}
}

// BenchmarkValues measures the cost of scrubbing different data; it increases with the amount
// to decode.
func BenchmarkValues(b *testing.B) {
	v := valuesOf(b, "ghp_0123456789abcdefghijABCDEFGHIJ", "sk-another-key-of-some-length-0123456789")
	noise := make([]byte, 1<<19)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	base := base64.StdEncoding.EncodeToString(noise)
	for name, text := range map[string]string{
		"prose":        strings.Repeat("the quick brown fox jumps over the lazy dog, and on it goes\n", 10_000),
		"JSON":         strings.Repeat(`{"name":"a \"quoted\" word","path":"/usr/share/doc/one/two/three","n":[1,2,3]}`+"\n", 10_000),
		"base64":       columns(base, 76, "\n"),
		"base64 twice": base64.StdEncoding.EncodeToString([]byte(base)),
		"hex":          hex.EncodeToString(noise),
		"percent":      escape(noise[:1<<17], "", "%%%02x"),
		"percent x3":   url.QueryEscape(url.QueryEscape(escape(noise[:1<<16], "", "%%%02x"))),
		"binary":       string(noise),
		"drops":        base,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				var from io.Reader = strings.NewReader(text)
				if name == "drops" {
					from = &drops{[]byte(text)}
				}
				_, _ = io.Copy(io.Discard, v.Scrub(from))
			}
		})
	}
}

// drops returns a text a few bytes at a time.
type drops struct{ text []byte }

func (d *drops) Read(p []byte) (int, error) {
	if len(d.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p, d.text[:min(7, len(d.text))])
	d.text = d.text[n:]
	return n, nil
}

// TestValuesAcrossPieces: a value is found also if it is split across pieces or encoded.
func TestValuesAcrossPieces(t *testing.T) {
	t.Parallel()
	v := must.Get(NewValues(Value{Secret: []byte("a-value-of-16-by"), Shown: "<it>"}))(t)
	for text, want := range map[string]bool{
		"": false, "a-value-of-16-b": false, "x a-value-of-16-by": true, base64.StdEncoding.EncodeToString([]byte("..a-value-of-16-by")): true,
		strings.Repeat("long line\n", 10_000) + "a-value-of-16-by": true, strings.Repeat("long line\n", 10_000): false,
	} {
		if got := must.Get(v.In(iotest.OneByteReader(strings.NewReader(text))))(t); got != want {
			t.Errorf("%.20q of %d bytes: %v", text, len(text), got)
		}
	}
	if _, err := v.In(iotest.ErrReader(io.ErrUnexpectedEOF)); err == nil {
		t.Error("a text that cannot be read has no value")
	}
}
