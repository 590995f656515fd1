package secret

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"net/textproto"
	"strings"
	"unicode/utf16"

	"palyra/internal/core/encoded"
)

// The characters that encoders leave unchanged.
const (
	letters    = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	unreserved = letters + "-._~"                        // RFC 3986 section 2.3
	segment    = unreserved + "$&+:=@"                   // url.PathEscape
	component  = unreserved + "!'()*"                    // encodeURIComponent of ECMAScript
	wholeURI   = component + ";/?:@&=+$,#"               // encodeURI of ECMAScript
	form       = letters + "-._*"                        // application/x-www-form-urlencoded
	quotable   = component + ";/?:@&+$,# \"%<>[\\]^`{|}" // RFC 2045 section 6.7
)

// longestForm is the maximum length of a searched form: twelve bytes for each byte of a value.
// Encoders write at most six bytes, such as "\u0041", and nine if the escape is escaped again.
const longestForm = 12 * maxValue

// formByte reports whether a form of some value may contain a byte: UTF-16 contains NUL, and all
// other forms consist of printable bytes. A line end may also occur; see wraps. The exception is
// a value with escapes of control characters, once it is unescaped: it is found within one read.
func formByte(c byte) bool { return c == 0 || ' ' <= c && c != 0x7f }

// encodings returns the forms in which a value may occur, the plain value first. For base64 it
// returns the part that does not depend on the surrounding text, for each of the three
// positions in a group. Up to four bits at either end share a character with the neighbours.
func encodings(value []byte) [][]byte {
	plain, digits := string(value), hex.EncodeToString(value)
	forms := []string{
		plain, strings.ToLower(plain), strings.ToUpper(plain), textproto.CanonicalMIMEHeaderKey(plain), strings.ReplaceAll(plain, " ", "+"),
		digits, strings.ToUpper(digits),
	}
	// A reader that unescapes a text also unescapes the value in it. A control character in it ends
	// the held part of a stream, which may then separate its lines, so each is a form as well.
	if r, ok := encoded.Unescape(value); ok {
		forms = append(forms, string(r.Text))
		for _, line := range parts(r.Text) {
			forms = append(forms, string(line))
		}
	}
	for offset := range 3 {
		forms = append(forms, base64Core(base64.RawStdEncoding, value, offset), base64Core(base64.RawURLEncoding, value, offset))
	}
	forms = append(forms, percentForms(value)...)
	forms = append(forms, jsonForms(value)...)
	forms = append(forms, htmlForms(value)...)
	forms = append(forms, escape(value, quotable, "=%02X"), escape(value, "", `\x%02x`), escape(value, "", `\x%02X`))
	forms = append(forms, lists(value)...)
	forms = append(forms, wideForms(value)...)
	return distinct(forms)
}

// lists returns the printed forms of a value as a list of bytes.
func lists(value []byte) (forms []string) {
	for _, between := range []string{" ", ",", ", "} {
		forms = append(forms, strings.TrimSuffix(escape(value, "", "%d"+between), between))
	}
	return append(forms, escape(value, "", `\%03o`))
}

// wideForms returns the value in UTF-16, in both byte orders.
func wideForms(value []byte) (forms []string) {
	units := utf16.Encode([]rune(string(value)))
	little, big := make([]byte, 0, 2*len(units)), make([]byte, 0, 2*len(units))
	for _, u := range units {
		little = binary.LittleEndian.AppendUint16(little, u)
		big = binary.BigEndian.AppendUint16(big, u)
	}
	return []string{string(little), string(big)}
}

func percentForms(value []byte) (forms []string) {
	for _, format := range []string{"%%%02X", "%%%02x"} {
		for _, keep := range []string{"", unreserved, segment, component, wholeURI} {
			forms = append(forms, escape(value, keep, format))
		}
		for _, keep := range []string{unreserved, form} {
			forms = append(forms, strings.ReplaceAll(escape(value, keep+" ", format), " ", "+"))
		}
	}
	return forms
}

// base64Core encodes value as if offset bytes preceded it, and omits the characters that contain
// bits of other bytes.
func base64Core(encoding *base64.Encoding, value []byte, offset int) string {
	text := encoding.EncodeToString(append(make([]byte, offset), value...))
	return text[(offset*8+5)/6 : (offset+len(value))*8/6]
}

// escape leaves the characters of keep unchanged and writes each other byte in the given format.
func escape(value []byte, keep, format string) string {
	var b strings.Builder
	for _, c := range value {
		if strings.IndexByte(keep, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// jsonForms returns the output of JSON encoders: some escape the slash, and some the HTML
// characters.
func jsonForms(value []byte) []string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	forms := []string{
		quoted.Replace(string(value)), strings.ReplaceAll(quoted.Replace(string(value)), "/", `\/`),
		escape(value, "", `\u%04x`), escape(value, "", `\u%04X`),
	}
	for _, format := range []string{`\u%04x`, `\u%04X`} {
		var pairs []string
		for _, c := range "<>&'+" {
			pairs = append(pairs, string(c), fmt.Sprintf(format, c))
		}
		// Most encoders escape three of the characters, some five.
		forms = append(forms, strings.NewReplacer(pairs[:6]...).Replace(forms[0]), strings.NewReplacer(pairs...).Replace(forms[0]))
	}
	return forms
}

func htmlForms(value []byte) []string {
	named := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	quotes := [][2]string{{"&#34;", "&#39;"}, {"&quot;", "&#39;"}, {"&quot;", "&apos;"}, {"&quot;", "&#x27;"}, {"&quot;", "'"}}
	forms := []string{named.Replace(string(value)), escape(value, "", "&#%d;"), escape(value, "", "&#x%x;"), escape(value, "", "&#x%X;")}
	for _, q := range quotes {
		forms = append(forms, strings.NewReplacer(`"`, q[0], "'", q[1]).Replace(forms[0]))
	}
	return forms
}

func distinct(forms []string) [][]byte {
	seen := make(map[string]bool, len(forms))
	var list [][]byte
	for _, f := range forms {
		if len(f) >= minValue && !seen[f] {
			seen[f] = true
			list = append(list, []byte(f))
		}
	}
	return list
}
