package secret

import (
	"encoding/base64"
	"encoding/hex"
	"io"
	"net/url"
	"strings"
	"testing"

	"palyra/internal/egress"
)

// FuzzWatch: a placeholder is found anywhere and in any pieces, plain and in each encoding, and
// no part of it is forwarded. Text without a marker is forwarded unchanged.
func FuzzWatch(f *testing.F) {
	f.Add("a", "b", byte(0), uint64(1))
	f.Add("palyra-se", "palyra-sec", byte(2), uint64(2))
	f.Add(strings.Repeat("cGFseX", 9), "%70%61", byte(4), uint64(3))
	f.Fuzz(func(t *testing.T, before, after string, how byte, seed uint64) {
		x, _ := session(t, "run1")
		token := x.Placeholder("token")
		if len(markers().all([]byte(before+"|"+after))) > 0 {
			return // not in the scope of this test
		}
		forms := []string{
			token, strings.ToUpper(token), base64.StdEncoding.EncodeToString([]byte(before + token + after)),
			hex.EncodeToString([]byte(token)), escape([]byte(token), "", "%%%02x"), url.QueryEscape(token), wide(token, 8),
		}
		form := forms[int(how)%len(forms)]
		got, err := io.ReadAll(x.Watch(pieces(before+form+after, seed)))
		if Word(err) != egress.ReasonSecretMisplaced || strings.Contains(string(got), form) {
			t.Errorf("%q passes as %q: %v", before+form+after, got, err)
		}
		if got, err = io.ReadAll(x.Watch(pieces(before+"|"+after, seed))); err != nil || string(got) != before+"|"+after {
			t.Errorf("%q became %q: %v", before+"|"+after, got, err)
		}
	})
}

// FuzzMarked: percent-encoding of any characters does not hide a marker.
func FuzzMarked(f *testing.F) {
	f.Add("x", "y", uint16(1))
	f.Fuzz(func(t *testing.T, before, after string, which uint16) {
		var text strings.Builder
		for i, c := range []byte(marker) {
			if which>>i&1 == 1 {
				text.WriteString(escape([]byte{c}, "", "%%%02x"))
			} else {
				text.WriteByte(c)
			}
		}
		if s := strings.TrimRight(before, "%0123456789abcdefABCDEF") + text.String() + after; !Marked(s) {
			t.Errorf("%q is not recognised", s)
		}
	})
}
