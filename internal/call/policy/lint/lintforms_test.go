package lint_test

import (
	"strings"
	"testing"

	"palyra/internal/call/policy/finding"
	"palyra/internal/call/policy/lint"
	"palyra/internal/call/policy/policytest"
)

// TestComparisonsThatNeverHold: a comparison that no call can satisfy is a warning that
// contains the correct form. The controls are comparisons of the same facts that calls satisfy.
func TestComparisonsThatNeverHold(t *testing.T) {
	t.Parallel()
	guards := map[string]string{"exec": "context has exec", "path": "context has path", "path_folded": "context has path_folded", "host": "context has host", "domain": "context has domain", "method": "context has method", "port": "context has port", "external": "context has external"}
	for fact, row := range map[string]struct{ never, fine []string }{
		"exec.basename":     {[]string{`== "release.sh"`, `== "deploy/release.sh"`, `like "deploy/*"`, `== "/usr/bin/git"`, `== "./a/../b.sh"`}, []string{`== "./deploy/release.sh"`, `like "./*release.sh"`, `== "git"`, `like "python3*"`, `== "npm-cli.js"`, `like "*.sh"`}},
		"exec.path":         {[]string{`== "git"`, `like "bin/*"`, `== "/usr/bin/../bin/git"`}, []string{`== "/usr/bin/git"`, `like "/usr/*"`, `like "*/git"`, `== "C:\\git.exe"`}},
		"exec.sha256":       {[]string{`== "0123"`, `== "sha256:ABCD"`}, []string{`== "sha256:` + strings.Repeat("0a", 32) + `"`}},
		"exec.is_shell":     {nil, []string{`== true`}},
		"path":              {[]string{`== "/src/x"`, `like "./src/*"`, `== "src/"`, `like "../*"`}, []string{`!= "12"`, `like "*/12"`}},
		"path_folded":       {[]string{`== "/src/x"`, `== "a/../b"`}, []string{`== "src/x"`, `== "."`}},
		"host":              {[]string{`== "https://example.org"`, `== "Example.org"`, `== "example.org:443"`, `like "http://*"`}, []string{`== "example.org"`, `like "*.example.org"`, `== "2001:db8::1"`}},
		"domain":            {[]string{`== "example.org/"`}, []string{`== "example.org"`}},
		"method":            {[]string{`== "post"`}, []string{`== "POST"`}},
		"port":              {[]string{`== 0`, `> 65535`, `< 70000`}, []string{`== 443`, `> 1024`}},
		"risk":              {[]string{`> 100`, `>= 101`, `< 0`, `== 1000`}, []string{`> 99`, `>= 100`, `< 1`}},
		"external.act":      {nil, []string{`== "shell"`}},
		"external.outside":  {[]string{`.contains("etc/passwd")`}, []string{`.contains("/etc/passwd")`}},
		"exec.env":          {[]string{`.contains("PATH=/tmp")`}, []string{`.contains("PATH")`, `.contains("?")`}},
		"egress.hosts":      {[]string{`.contains("github.com")`, `.contains("https://github.com:443")`}, []string{`.contains("github.com:443")`, `.contains("*.example.org:443")`}},
		"egress.secrets":    {[]string{`.contains("vault://global/github")`}, []string{`.contains("global/github")`}},
		"session.in_flight": {[]string{`< 0`}, []string{`> 3`}},
	} {
		guard := "true"
		if first, _, _ := strings.Cut(fact, "."); guards[first] != "" {
			guard = guards[first]
		}
		for i, list := range [][]string{row.never, row.fine} {
			for _, comparison := range list {
				space := " "
				if strings.HasPrefix(comparison, ".") {
					space = ""
				}
				text := `forbid(principal, action in Action::"tool.execute", resource) when { ` + guard + " && context." + fact + space + comparison + " };"
				var found, errors []string
				for _, f := range lint.Check(policytest.Config(policytest.Options{Policies: text})) {
					if f.Code == finding.CodeUnknownValue {
						found = append(found, f.String())
					}
					if f.Severity == finding.SeverityError {
						errors = append(errors, f.String())
					}
				}
				if (len(found) > 0) != (i == 0) || len(errors) > 0 {
					t.Errorf("%s%s: found %q, errors %q", fact, comparison, found, errors)
				}
			}
		}
	}
}
