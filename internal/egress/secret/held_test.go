package secret

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"palyra/internal/core/encoded"
)

// script is a stream of chunks. trace records the length of the forwarded text at each request
// for the next chunk.
type script struct {
	chunks []string
	trace  []string
}

func (s *script) Read(p []byte) (int, error) {
	s.trace = append(s.trace, "?")
	if len(s.chunks) == 0 {
		return 0, io.EOF
	}
	n := copy(p, s.chunks[0])
	if s.chunks[0] = s.chunks[0][n:]; s.chunks[0] == "" {
		s.chunks = s.chunks[1:]
	}
	return n, nil
}

// watchHeld returns a program's view of a stream: the size of each piece, and between which
// chunks it arrives.
func watchHeld(x *Exchange, chunks ...string) []string {
	from := &script{chunks: slices.DeleteFunc(slices.Clone(chunks), func(c string) bool { return c == "" })}
	r, p := x.Scrub(from), make([]byte, 50<<10)
	for {
		n, err := r.Read(p)
		if err != nil {
			return from.trace
		}
		from.trace = append(from.trace, fmt.Sprint(n))
	}
}

// TestGuessesAreHeldEqually sends the prefix of a value in each of its forms, and other texts
// of the same length that differ at the end or completely. An attacker's host would send such
// guesses, with a pause after each.
func TestGuessesAreHeldEqually(t *testing.T) {
	t.Parallel()
	for _, value := range []string{awkward, "ghp_0123456789abcdefghijABCDEFGHIJ"} {
		x := used(t, value)
		for _, form := range encodings([]byte(value)) {
			for n := 1; n < len(form); n++ {
				right := string(form[:n])
				if x.ScrubText(right) != right {
					continue // without its last byte, UTF-16 contains the whole value
				}
				end := byte('~')
				if form[n-1] == '~' {
					end = 'q'
				}
				known := watchHeld(x, "line\nit is ", right, "!", "\n", "and on")
				for _, guess := range []string{right[:n-1] + string(end), strings.Repeat("~", n)} {
					if got := watchHeld(x, "line\nit is ", guess, "!", "\n", "and on"); !slices.Equal(known, got) {
						t.Fatalf("%q shows as %v, %q as %v", right, known, guess, got)
					}
				}
			}
		}
	}
}

// FuzzHeld: unless a complete value occurs, the sizes and times of the output reveal nothing
// about the values, not even their lengths. In the text, bytes below 32, except the line feed,
// stand for partial forms of the first value.
func FuzzHeld(f *testing.F) {
	f.Add("aaaaaaaab", "another", []byte("x\x00y\x01\x02aaaaaaaaaab\nit is \x03"), uint16(7))
	f.Add(awkward, "secretsecret", []byte("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13"), uint16(1))
	f.Add("12345678", "123456789", []byte("\xff\x00\x00 zzzzzzz"), uint16(999))
	f.Fuzz(func(t *testing.T, first, second string, text []byte, repeat uint16) {
		if checkValue([]byte(first)) != nil || checkValue([]byte(second)) != nil || len(first)+len(second) > 80 || len(text) > 100 {
			return // not in the scope of this test
		}
		forms := encodings([]byte(first))
		var chunks []string
		for i, c := range text {
			piece := string(c)
			if c < 32 && c != '\n' {
				form := forms[int(c)%len(forms)]
				piece = string(form[:len(form)*(i%8)/8])
			}
			if i%5 == 4 {
				piece = strings.Repeat(piece, int(repeat)%1000) // longer than the held part
			}
			chunks = append(chunks, piece)
		}
		one, other, whole := used(t, first), used(t, second), strings.Join(chunks, "")
		if one.ScrubText(whole) != whole || other.ScrubText(whole) != whole {
			return // not in the scope of this test
		}
		got, want := watchHeld(one, chunks...), watchHeld(other, chunks...)
		if !slices.Equal(got, want) {
			t.Errorf("%q shows as %v with %q and as %v with %q", chunks, got, first, want, second)
		}
	})
}

// compared returns the number of needles that are compared with a text.
func compared(m *matcher, text []byte) int {
	var h hashes
	n := 0
	for end := 0; ; {
		more := m.pass(&h, text[end:])
		if more == 0 {
			return n
		}
		end += more
		for i, window := range h {
			n += len(m.at[i][uint32(window>>32)])
		}
	}
}

// TestGuessesTakeEqualTime: a guess that is correct except for its end is not compared with the
// value, and so takes as long as any other guess. Hashes are random, so that one matcher may compare
// a guess by chance, but two matchers do not.
func TestGuessesTakeEqualTime(t *testing.T) {
	t.Parallel()
	for _, value := range []string{awkward, "ghp_0123456789abcdefghijABCDEFGHIJ", "12345678"} {
		m, other := used(t, value).finds.Load().matcher, used(t, value).finds.Load().matcher
		for _, n := range m.needles {
			// UTF-16 without its last byte is UTF-16 in the other byte order.
			guess := n.text[:len(n.text)-2]
			if c := min(compared(m, guess), compared(other, guess)); c != 0 {
				t.Errorf("%q is compared with %d forms", guess, c)
			}
			if compared(m, n.text) == 0 {
				t.Errorf("the form %q is not recognised", n.text)
			}
		}
	}
}

// BenchmarkGuess scrubs streams of right and wrong guesses, which must take the same time.
func BenchmarkGuess(b *testing.B) {
	x := used(b, "ghp_0123456789abcdefghijABCDEFGHIJ")
	for _, guess := range []string{"ghp_01234567\n", "ghp_01234569\n", "abc\n", "abd\n", `\u0067\u0068`, `\u0067\u0069`} {
		text := strings.Repeat(guess, (1<<20)/len(guess))
		b.Run(guess, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if n, err := io.Copy(io.Discard, x.Scrub(strings.NewReader(text))); err != nil || n != int64(len(text)) {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// FuzzForms: no form is longer than the held part, or contains a byte that ends it.
func FuzzForms(f *testing.F) {
	f.Add(awkward)
	f.Add(strings.Repeat(`"`, minValue))
	f.Add(strings.Repeat(`'`, minValue))
	f.Add(strings.Repeat("&", maxValue))
	f.Add(strings.Repeat("~", maxValue))
	f.Add("hunter2-%01-hunter2%0Ahunter2")
	f.Fuzz(func(t *testing.T, value string) {
		if checkValue([]byte(value)) != nil {
			return // not in the scope of this test
		}
		unescaped, escapes := encoded.Unescape([]byte(value))
		for _, form := range encodings([]byte(value)) {
			if escapes && bytes.Equal(form, unescaped.Text) {
				continue // its lines are forms, too
			}
			if len(form) > len(value)*longestForm/maxValue {
				t.Errorf("%.40q has a form of %d bytes", value, len(form))
			}
			if slices.ContainsFunc(form, func(c byte) bool { return !formByte(c) }) {
				t.Errorf("%.40q has the form %.100q", value, form)
			}
		}
	})
}

// TestHeldBytes: lines are forwarded as they are written, the rest once it is decided, and
// everything at the end.
func TestHeldBytes(t *testing.T) {
	t.Parallel()
	const value = "hunter2-hunter2"
	x := used(t, value)
	long := strings.Repeat("z", 2*longestForm-1)
	for _, test := range []struct {
		name   string
		chunks []string
		want   string
	}{
		{"lines", []string{"a\n", "b\n", "data: c\n\n"}, "? 2 ? 2 ? 9 ?"},
		{"a prompt", []string{"password? ", "\n"}, "? ? 11 ?"},
		{"progress", []string{"10%\r", "20%\r"}, "? 4 ? 4 ?"},
		{"colours", []string{"\x1b[1mred\x1b[0m"}, "? 8 ? 3"},
		{"not ASCII", []string{"caf\u00e9", "s\n"}, "? ? 7 ?"},
		{"lines of base64", []string{strings.Repeat("QUJD", 16) + "\n", strings.Repeat("QUJD", 16) + "\r\n", "REVG\n"}, "? ? ? 136 ?"},
		{"a line of base64 and a blank one", []string{strings.Repeat("QUJD", 16) + "\n", "\n"}, "? ? 66 ?"},
		{"a soft line end", []string{"it is hunt=\r\n", "er\n"}, "? ? 16 ?"},
		{"a value in lines", []string{"aHVudGVyMi1odW50\n", "ZXIy\n"}, "? ? 19 ?"},
		{"a value", []string{"it is " + value, "!\n"}, "? ? 26 ?"},
		{"a value at the end", []string{value}, "? ? 18"},
		{"the beginning of one at the end", []string{"it is hunter2-"}, "? ? 14"},
		{"as much as is held", []string{long, "z", "zz"}, "? ? ? ? 49153 ? ? 49153"},
		{"a value where it is cut", []string{long[:longestForm-2] + value + long[:longestForm+2-len(value)]}, "? ? ? 49168 ? 49139"},
	} {
		if got := strings.Join(watchHeld(x, test.chunks...), " "); got != test.want {
			t.Errorf("%s shows as %s, want %s", test.name, got, test.want)
		}
	}
}

// TestErrorsFlushHeldBytes: held bytes are forwarded before the error.
func TestErrorsFlushHeldBytes(t *testing.T) {
	t.Parallel()
	x := used(t, "hunter2-hunter2")
	broken := errors.New("broken")
	for _, last := range []error{io.ErrUnexpectedEOF, broken} {
		got, err := io.ReadAll(x.Scrub(io.MultiReader(strings.NewReader("it is hunter2-"), iotest.ErrReader(last))))
		if !errors.Is(err, last) || string(got) != "it is hunter2-" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// TestUnescapedControl: a value with escapes of control characters is found after they are
// decoded; if it arrives in pieces, its lines are.
func TestUnescapedControl(t *testing.T) {
	t.Parallel()
	for value, decoded := range map[string]string{
		"tok%09en12345":             "tok\ten12345",
		`tok\ten9912`:               "tok\ten9912",
		"ab12cd%0Aef34gh%0Aij56kl":  "ab12cd\nef34gh\nij56kl",
		"hunter2-one%0Ahunter2-two": "hunter2-one\nhunter2-two",
	} {
		x := used(t, value).finds.Load()
		if got := x.Text("(" + decoded + ")"); strings.Contains(got, decoded[:3]) || strings.Contains(got, decoded[len(decoded)-3:]) {
			t.Errorf("%q shows as %q", value, got)
		}
	}
	text := "hunter2-one\nhunter2-two"
	x := used(t, "hunter2-one%0Ahunter2-two").finds.Load()
	if got, err := io.ReadAll(x.Scrub(iotest.OneByteReader(strings.NewReader(text)))); err != nil || bytes.Contains(got, []byte("hunter2")) {
		t.Errorf("in pieces it shows as %q, %v", got, err)
	}
}
