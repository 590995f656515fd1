package encoded

import (
	"bytes"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
)

// readings lists the decoded texts, each with its source.
func readings(text string, all func(yield func(*Reading) bool)) (list []string) {
	for r := range all {
		if n := len(r.Text) - 1; n > 0 { // without the placeholder for the rest
			from, to := r.Place(0, n)
			list = append(list, fmt.Sprintf("%q of %q", r.Text[:n], text[from:to]))
		}
	}
	return list
}

func TestEscapes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain":                                  "",
		"100% \\ & so on &; &x; %4":              "",
		"a%2Fb%c3%a9%2f":                         "a/b\u00e9/",
		`\u0041\x42\103\/\"\n\\\u{44}\U00000045`: "ABC/\"\n\\DE",
		"&#65;&#x42;&#X0043;&amp;&lowbar;":       "ABC&_",
		"a\x00b\x00":                             "",
		"a\x00b\x00c\x00,\x00":                   "abc,",
		"%":                                      "",
		`\u00`:                                   "",
		"&#99999999;&#xffffffffff;":              "",
	} {
		r, ok := Unescape([]byte(text))
		if ok != (want != "") || ok && string(r.Text) != want {
			t.Errorf("%q is read as %v, %t", text, r, ok)
		}
	}
	if r, ok := Unquote([]byte("a=3D=\r\nb=\nc=zz")); !ok || string(r.Text) != "a=bc=zz" {
		t.Errorf("quoted-printable is read as %q", r.Text)
	}
	r, _ := UnescapeURL([]byte(`x%41\u0042y`))
	if from, to := r.Place(1, 2); string(r.Text) != `xA\u0042y` || from != 1 || to != 4 {
		t.Errorf("%q, %d to %d", r.Text, from, to)
	}
}

func TestDigits(t *testing.T) {
	t.Parallel()
	long := base64.StdEncoding.EncodeToString([]byte("the quick brown fox jumps"))
	for name, c := range map[string]struct {
		text string
		all  func(yield func(*Reading) bool)
		want string
	}{
		"base64":         {"(" + long + ")", Base64([]byte("("+long+")"), 8), fmt.Sprintf("%q of %q", "the quick brown fox jumps", strings.TrimRight(long, "="))},
		"lines":          {long[:20] + "\r\n  " + long[20:], Base64([]byte(long[:20]+"\r\n  "+long[20:]), 8), fmt.Sprintf("%q of %q", "the quick brown fox jumps", long[:20]+"\r\n  "+strings.TrimRight(long[20:], "="))},
		"base32":         {"(ORUGKIDROVUWG2ZAMJZG653O)", Base32([]byte("(ORUGKIDROVUWG2ZAMJZG653O)"), 8), `"the quick brown" of "ORUGKIDROVUWG2ZAMJZG653O"`},
		"base32, lines":  {"orugkidrovuwg2zamjzg\n653o", Base32([]byte("orugkidrovuwg2zamjzg\n653o"), 8), `"the quick brown" of "orugkidrovuwg2zamjzg\n653o"`},
		"hex":            {"x: 68:65:6C 6c,0x6F ", Hex([]byte("x: 68:65:6C 6c,0x6F "), 5), `"hello" of "68:65:6C 6c,0x6F"`},
		"half a byte on": {"f68656c6c6f", Hex([]byte("f68656c6c6f"), 5), `"hello" of "68656c6c6f"`},
	} {
		if got := readings(c.text, c.all); !bytes.Contains([]byte(strings.Join(got, "\n")), []byte(c.want)) {
			t.Errorf("%s: %s, want %s", name, strings.Join(got, "\n"), c.want)
		}
	}
	for _, text := range []string{"", "short", "many short words, and no long one\nin it", "a line\nand\none\nmore"} {
		if got := append(readings(text, Base64([]byte(text), 8)), readings(text, Hex([]byte(text), 8))...); len(got) > 0 {
			t.Errorf("%q is read as %q", text, got)
		}
	}
}

// FuzzReadings: for any text, a reading is in it in its order, and the encoded secret is among
// the readings.
func FuzzReadings(f *testing.F) {
	f.Add("before ", []byte("the secret"), " after")
	f.Add("QUJD", []byte("\x00\x01\x02\x03\x04\x05\x06\x07"), "0x")
	f.Fuzz(func(t *testing.T, before string, secret []byte, after string) {
		if len(secret) < 8 {
			return
		}
		for _, form := range []string{base64.RawStdEncoding.EncodeToString(secret), hex.EncodeToString(secret), base32.StdEncoding.EncodeToString(secret), hex.Dump(secret)} {
			text, found := []byte(before+form+after), false
			see := func(r *Reading) {
				for i := range r.Text {
					if from, to := r.Place(i, i+1); from > to || to > len(text) || i > 0 && from < int(r.from[i-1]) {
						t.Fatalf("%q: byte %d stands from %d to %d", text, i, from, to)
					}
				}
				found = found || bytes.Contains(r.Text, secret)
			}
			for r := range Base64(text, 8) {
				see(r)
			}
			for r := range Hex(text, 8) {
				see(r)
			}
			for r := range Base32(text, 8) {
				see(r)
			}
			for r := range Dump([]byte(before+"\n"+form+after), 8) {
				found = found || bytes.Contains(r.Text, secret)
			}
			for r := range Joined(text, 8) {
				for i := range r.Text {
					if from, to := r.Place(i, i+1); from > to || to > len(text) {
						t.Fatalf("%q: byte %d stands from %d to %d", text, i, from, to)
					}
				}
			}
			// Digits before and after may shift the secret's digits.
			if strings.HasSuffix(before, " ") && !found && (len(after) == 0 || after[0]|0x20 != 'x') {
				t.Errorf("%q: %q is not found", text, secret)
			}
		}
	})
}

// mustHold is the minimum result of MayHold: true if a reading contains a word or more base64.
func mustHold(text []byte, least int, words []string) bool {
	for r := range Base64(text, least) {
		lower := bytes.Clone(r.Text)
		for i, c := range lower {
			if c >= 'A' && c <= 'Z' {
				lower[i] = c + 'a' - 'A'
			}
		}
		for _, word := range words {
			if bytes.Contains(lower, []byte(word)) {
				return true
			}
		}
		for range Base64(bytes.Clone(r.Text), least) {
			return true
		}
	}
	return false
}

// FuzzMayHold: content of a text's readings is never missed, and the first positions of words
// are the same as in a plain search.
func FuzzMayHold(f *testing.F) {
	words := []string{"key", "sk-", "-----begin ", "kex"}
	var b Beginnings
	for _, word := range words {
		b.Add(word)
	}
	for _, text := range []string{"key", "a KEY", "the sk-", "------", "kekekey", "no word of them"} {
		for n := range 4 {
			long := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("<", 8+n) + text))
			f.Add(long, byte(0))
			f.Add(text+"\n"+long[:12]+"\r\n "+long[12:], byte(3))
			f.Add(base64.RawURLEncoding.EncodeToString([]byte("<<<"+long+">>")), byte(1))
		}
	}
	f.Fuzz(func(t *testing.T, text string, from byte) {
		if mustHold([]byte(text), 8, words) && !MayHold([]byte(text), 8, &b) {
			t.Errorf("%q may hold nothing", text)
		}
		want := -1
		for i := int(from); i+3 <= len(text) && want < 0; i++ {
			for _, word := range words {
				if strings.EqualFold(text[i:i+3], word[:3]) && text[i] < 0x80 && text[i+1] < 0x80 && text[i+2] < 0x80 {
					want = i
				}
			}
		}
		if got := Next(&b, text, int(from)); got != want {
			t.Errorf("the next word of %q from %d on is at %d, want %d", text, from, got, want)
		}
	})
}

func TestMayHoldIsSeldom(t *testing.T) {
	t.Parallel()
	var b Beginnings
	for _, word := range []string{"ghp_", "bearer", "eyj", "akia"} {
		b.Add(word)
	}
	for text, want := range map[string]bool{
		strings.Repeat("0123456789abcdef", 4):                                                   false,
		"/home/somebody/projects/workspace/internal/main.go":                                    false,
		base64.StdEncoding.EncodeToString([]byte("nothing to see in here, is there")):           false,
		base64.StdEncoding.EncodeToString([]byte("but a ghp_ there is in here, do look")):       true,
		base64.StdEncoding.EncodeToString([]byte("twice: " + strings.Repeat("abcdefghijk", 3))): true,
	} {
		if got := MayHold([]byte(text), 20, &b); got != want {
			t.Errorf("MayHold(%q) = %t, want %t", text, got, want)
		}
	}
}
