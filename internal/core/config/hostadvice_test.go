package config

import (
	"strings"
	"testing"
)

// TestHostAdvice: the host that a finding suggests is accepted. Control: the original text is
// not.
func TestHostAdvice(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]string{
		"https://api.github.com":            "api.github.com:443",
		"https://api.github.com/repos?x=1":  "api.github.com:443",
		"https://api.github.com:8443/repos": "api.github.com:8443",
		"http://intranet.example":           "intranet.example:80",
		"https://me:secret@api.github.com/": "api.github.com:443",
		"me@api.github.com":                 "api.github.com:443",
		"api.github.com/repos":              "api.github.com:443",
		"api.github.com:443/path":           "api.github.com:443",
		"api.github.com:443/path:443":       "api.github.com:443",
		"api.github.com#x":                  "api.github.com:443",
		"https://[2001:db8::1]:8443/":       "[2001:db8::1]:8443",
		"https://[2001:db8::1]/":            "[2001:db8::1]:443",
		"*.github.com/path":                 "*.github.com:443",
		"api.github.com":                    "api.github.com:443",
		"::1":                               "[::1]:443",
		"10.0.0.0/8":                        "10.0.0.0/8:443",
		"10.0.0.0/8:22":                     "",
		"api.github.com:443":                "",
	} {
		k := &checker{}
		find := func(rule string) string {
			k.findings = nil
			k.hosts("hosts", []string{rule})
			k.ports("hosts", []string{rule})
			return k.findings.Error()
		}
		text := ""
		if found := find(written); want != "" {
			text = found
		} else if len(k.findings) > 0 {
			t.Errorf("%q is refused: %s", written, found)
			continue
		}
		if want == "" {
			continue
		}
		if len(k.findings) != 1 || !strings.HasSuffix(strings.TrimSpace(text), want) {
			t.Errorf("%q: %s, want advice that ends in %s", written, text, want)
		}
		if _ = find(want); len(k.findings) > 0 {
			t.Errorf("the advice %q is refused: %v", want, k.findings)
		}
	}
}
