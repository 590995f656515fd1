package dnsname

import (
	"regexp"
	"strings"
	"testing"
)

// form is the equivalent regular expression, which takes a millisecond to compile.
var form = regexp.MustCompile(`^([a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?\.)*[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?$`)

func FuzzValid(f *testing.F) {
	long := strings.Repeat("a", 63)
	for _, name := range []string{
		"", ".", "a", "-", "a-", "-a", "a-b", "A.b", "a..b", ".a", "a.", "1.2", "a_b", "a b", "ž", "a\x00", "a\n", long, long + "a",
		long + "." + long + "." + long + "." + long[:61], long + "." + long + "." + long + "." + long[:62],
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if got, want := Valid(name), len(name) <= 253 && form.MatchString(name); got != want {
			t.Errorf("%q: %t", name, got)
		}
	})
}
