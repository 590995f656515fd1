package leaks

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// window is the number of searched bytes of an encoding: small enough that a part of a key is
// found, and large enough to exclude coincidences.
const window = 14

// Searcher finds keys in texts. The zero value finds none.
type Searcher struct {
	keys, words []Key
	// windows are the first and middle bytes of all encodings of all keys, with the number of the
	// key and the name of the encoding.
	windows map[[window]byte]hit
	// first has a bit for the first four bytes of each window, so that most positions need one
	// lookup.
	first [1 << 16]uint64
}

type hit struct {
	key  int
	form string
}

// Leak is a key in a place where it must not be.
type Leak struct {
	Key, Form, Place string
	// Offset is the position in bytes. If blanks were removed from the text, it is the position in
	// the remaining text.
	Offset int
}

func (l Leak) String() string {
	return fmt.Sprintf("the key of %s stands in %s, as %s, at byte %d", l.Key, l.Place, l.Form, l.Offset)
}

// Add adds keys to the searcher.
func (s *Searcher) Add(keys ...Key) error {
	if s.windows == nil {
		s.windows = map[[window]byte]hit{}
	}
	for _, k := range keys {
		if k.Word && len(k.Secret) >= 8 {
			s.words = append(s.words, k)
			continue
		}
		if len(k.Secret) < 16 {
			return fmt.Errorf("the key of %s has %d bytes", k.Name, len(k.Secret))
		}
		if slices.ContainsFunc(s.keys, func(other Key) bool { return bytes.Equal(other.Secret, k.Secret) }) {
			continue
		}
		s.keys = append(s.keys, k)
		for form, text := range encodings(k.Secret) {
			for _, at := range []int{0, (len(text) - window) / 2, len(text) - window} {
				s.look([window]byte(text[at:at+window]), hit{len(s.keys) - 1, form})
			}
		}
	}
	return nil
}

func (s *Searcher) look(w [window]byte, h hit) {
	s.windows[w] = h
	bit := start(w[:])
	s.first[bit>>6] |= 1 << (bit & 63)
}

// start returns a number below 2^22 for the first bytes of a text.
func start(b []byte) uint32 {
	return (uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])) * 2654435761 >> 10
}

// Keys returns the number of keys of the searcher.
func (s *Searcher) Keys() int { return len(s.keys) + len(s.words) }

// encodings returns the forms in which a secret could leak. The base64 forms omit the characters
// that also depend on adjacent bytes, so that they are found within a longer encoding, such as a
// whole PKCS #8 file. The search also runs on the text without blanks and line ends.
func encodings(secret []byte) map[string][]byte {
	forms := map[string][]byte{
		"bytes":          secret,
		"hex":            []byte(hex.EncodeToString(secret)),
		"hex, capitals":  []byte(strings.ToUpper(hex.EncodeToString(secret))),
		"a number":       []byte(new(big.Int).SetBytes(secret).String()),
		"a list of Go":   []byte(strings.Trim(fmt.Sprint(secret), "[]")),
		"a list of JSON": []byte(strings.ReplaceAll(strings.Trim(fmt.Sprint(secret), "[]"), " ", ",")),
		"Go syntax":      []byte(strings.TrimSuffix(strings.TrimPrefix(strings.ReplaceAll(fmt.Sprintf("%#v", secret), " ", ""), "[]byte{"), "}")),
	}
	for name, text := range inBase64(secret) {
		forms[name] = text
		for twice, text := range inBase64(text) {
			forms[twice+" of "+name] = text
		}
	}
	addEscaped(forms, secret)
	return forms
}

// inBase64 returns the base64 forms of a text for each alignment within a longer text.
func inBase64(text []byte) map[string][]byte {
	forms := map[string][]byte{}
	for before := range 3 {
		whole := append(make([]byte, before), text...)
		for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64 for URLs": base64.RawURLEncoding} {
			coded := encoding.EncodeToString(whole)
			from, to := (before*8+5)/6, len(whole)*8/6
			forms[fmt.Sprintf("%s, after %d bytes", name, before)] = []byte(coded[from:to])
		}
	}
	return forms
}

// addEscaped adds the escaped forms of texts with other characters than letters and digits.
func addEscaped(forms map[string][]byte, secret []byte) {
	for name, text := range map[string]string{"percent": url.QueryEscape(string(secret)), "percent, of a path": url.PathEscape(string(secret))} {
		forms[name] = []byte(text)
		forms[name+", lower"] = lowerEscapes.ReplaceAllFunc([]byte(text), bytes.ToLower)
	}
	var all strings.Builder
	for _, b := range secret {
		fmt.Fprintf(&all, "%%%02X", b)
	}
	forms["percent, all of it"], forms["percent, all of it, lower"] = []byte(all.String()), []byte(strings.ToLower(all.String()))
	if utf8.Valid(secret) {
		escaped, _ := json.Marshal(string(secret)) // a string can always be encoded
		forms["JSON"] = escaped[1 : len(escaped)-1]
		quoted := strconv.Quote(string(secret))
		forms["quoted"] = []byte(quoted[1 : len(quoted)-1])
	}
}

var lowerEscapes = regexp.MustCompile(`%[0-9A-F]{2}`)

// Text finds the keys in a text, except for own.
func (s *Searcher) Text(place string, text []byte, own ...Key) []Leak {
	found := s.standing(place, text)
	if len(s.windows) == 0 {
		return found
	}
	found = append(found, s.scan(place, text, own)...)
	return append(found, s.scan(place+" (without blanks)", unbroken(text), own)...)
}

// standing finds words that occur separately in a text, complete or in two halves as people read
// them aloud.
func (s *Searcher) standing(place string, text []byte) (found []Leak) {
	for _, k := range s.words {
		half := len(k.Secret) / 2
		for form, word := range map[string][]byte{
			"text": k.Secret, "two halves": slices.Concat(k.Secret[:half], []byte(" "), k.Secret[half:]), "two halves, with a hyphen": slices.Concat(k.Secret[:half], []byte("-"), k.Secret[half:]),
		} {
			for at := 0; ; at++ {
				next := bytes.Index(text[at:], word)
				if next < 0 {
					break
				}
				at += next
				if !inWord(text, at-1) && !inWord(text, at+len(word)) {
					found = append(found, Leak{k.Name, form, place, at})
					break
				}
			}
		}
	}
	return found
}

// inWord reports whether the character at a position of a text is a letter or digit.
func inWord(text []byte, at int) bool {
	if at < 0 || at >= len(text) {
		return false
	}
	b := text[at]
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
}

func (s *Searcher) scan(place string, text []byte, own []Key) (found []Leak) {
	told := map[int]bool{}
	for at := 0; at+window <= len(text); at++ {
		bit := start(text[at:])
		if s.first[bit>>6]&(1<<(bit&63)) == 0 {
			continue
		}
		h, leaked := s.windows[[window]byte(text[at:at+window])]
		if !leaked || told[h.key] || slices.ContainsFunc(own, func(k Key) bool { return bytes.Equal(k.Secret, s.keys[h.key].Secret) }) {
			continue
		}
		told[h.key] = true
		found = append(found, Leak{s.keys[h.key].Name, h.form, place, at})
	}
	return found
}

// unbroken returns a text without blanks, line ends (also escaped, as in JSON) and colons, which
// occur in long encodings.
func unbroken(text []byte) []byte {
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == ' ' || b == '\n' || b == '\r' || b == '\t' || b == ':':
		case b == '\\' && i+1 < len(text) && (text[i+1] == 'n' || text[i+1] == 'r'):
			i++
		default:
			out = append(out, b)
		}
	}
	return out
}

// Dir finds the keys in the files below a directory. A file that contains keys by design may
// contain its own.
func (s *Searcher) Dir(dir string) (found []Leak, err error) {
	err = files(dir, func(path string, text []byte) error {
		var own []Key
		if slices.Contains(homes, filepath.Base(path)) {
			own = keysIn(path, text)
		}
		found = append(found, s.Text(path, text, own...)...)
		return nil
	})
	return found, err
}

// Look gathers the keys below a directory and returns the leaks. texts are other output, by source;
// also are further keys, such as the keys of another gateway.
func Look(dir string, texts map[string]string, also ...Key) (keys int, found []Leak, err error) {
	gathered, err := Gather(dir)
	if err != nil {
		return 0, nil, err
	}
	var s Searcher
	if err := s.Add(append(gathered, also...)...); err != nil {
		return 0, nil, err
	}
	found, err = s.Dir(dir)
	for name, text := range texts {
		found = append(found, s.Text(name, []byte(text))...)
	}
	return s.Keys(), found, err
}
