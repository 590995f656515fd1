package localsocket

import (
	"strings"
	"testing"
)

func TestServiceUser(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		passwd string
		want   bool
	}{
		"nologin":                    {"palyra:x:997:997::/var/lib/palyra:/usr/sbin/nologin", true},
		"false":                      {"root:x:0:0::/root:/bin/bash\npalyra:x:997:997::/:/bin/false\n", true},
		"a shell":                    {"ann:x:997:997::/home/ann:/bin/sh", false},
		"no shell, which is /bin/sh": {"ann:x:997:997::/home/ann:", false},
		"not listed":                 {"palyra:x:998:997::/:/bin/false", false},
		"one of two names logs in":   {"palyra:x:997:997::/:/bin/false\nann:x:997:997::/:/bin/bash", false},
		"a short line":               {"palyra:x:997:997:/bin/false", false},
		"a uid with a sign":          {"palyra:x:+997:997::/:/bin/false", false},
		"empty":                      {"", false},
	} {
		if got := serviceUser(strings.NewReader(c.passwd), 997); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if serviceUser(strings.NewReader("palyra:x:997:997::/:/bin/false\n"+strings.Repeat("x", 1<<17)), 997) {
		t.Error("a file that cannot be read to its end")
	}
}
