package main

import (
	"strings"
	"testing"
)

func FuzzSums(f *testing.F) {
	line := strings.Repeat("0", 64) + "  palyra_1.2.3_amd64.deb\n"
	for _, seed := range []string{"", line, line + line, "x", strings.Repeat("0", 64) + "  ../etc/passwd\n", strings.Repeat("0", 64) + " *a\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sums, err := readSums([]byte(text))
		if err != nil {
			return
		}
		for _, s := range sums {
			if strings.ContainsAny(s.name, "/\\\x00") || strings.HasPrefix(s.name, ".") || len(s.digest) != 64 {
				t.Errorf("the line of %q with %q is accepted", s.name, s.digest)
			}
		}
	})
}
