package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// secretTable returns a valid table of a secret, with the given replacements.
func secretTable(replace ...string) string {
	text := "[[secrets]]\nname = \"github\"\nfile = \"~/token\"\nhosts = [\"api.github.com:443\"]\nenv = \"GITHUB_TOKEN\"\n"
	return strings.NewReplacer(replace...).Replace(text)
}

func TestSecretFindings(t *testing.T) {
	t.Parallel()
	host := func(rule string) string { return secretTable("api.github.com:443", rule) }
	header := func(name string) string { return secretTable() + "header = \"" + name + "\"\n" }
	for _, test := range []struct{ name, text, want string }{
		{"the control", secretTable(), ""},
		{"without a variable", secretTable("env = \"GITHUB_TOKEN\"\n", ""), ""},
		{"another header", header("X-Api-Key"), ""},
		{"a name", secretTable(`"github"`, `"Git_Hub"`), `:2:1: secrets[0].name is "Git_Hub"; use 1 to 32 of`},
		{"a long name", secretTable("github", strings.Repeat("g", 33)), "secrets[0].name is"},
		{"no name", secretTable("name = \"github\"\n", ""), `secrets[0].name is ""`},
		{"a name twice", secretTable() + secretTable("GITHUB", "OTHER"), `:7:1: secrets[1].name is "github" for the second time`},
		{"a variable twice", secretTable() + secretTable("github\"", "other\""), `:10:1: secrets[1].env is "GITHUB_TOKEN" for the second time`},
		{"no variables twice", secretTable("env = \"GITHUB_TOKEN\"\n", "") + secretTable("env = \"GITHUB_TOKEN\"\n", "", "github\"", "other\""), ""},
		{"not a variable", secretTable("GITHUB_TOKEN", "GITHUB-TOKEN"), `:5:1: secrets[0].env is "GITHUB-TOKEN"; use the name of a variable`},
		{"no file", secretTable("file = \"~/token\"\n", ""), "secrets[0].file is missing"},
		{"a relative file", secretTable("~/token", "token"), `:3:1: secrets[0].file is "token", which is not an absolute path`},
		{"no hosts", secretTable("hosts = [\"api.github.com:443\"]\n", ""), "secrets[0].hosts is empty"},
		{"no port", host("api.github.com"), `:4:1: secrets[0].hosts has "api.github.com", which names no port; write host:port, such as "api.github.com:443"`},
		{"port 0", host("api.github.com:0"), "use a port from 1 to 65535"},
		{"port 80", host("api.github.com:80"), "the port of plain HTTP"},
		{"a wildcard", host("*.github.com:443"), ""},
		{"a wildcard of everything", host("*:443"), `has "*:443"; name the hosts`},
		{"a wildcard of a top-level domain", host("*.com:443"), "below which anybody can have a host"},
		{"a wildcard of a registry", host("*.co.uk:443"), "below which anybody can have a host"},
		{"a wildcard of a host for all", host("*.github.io:443"), "below which anybody can have a host"},
		{"an address", host("192.0.2.7:8443"), ""},
		{"an address of IPv6", host("[2001:db8::7]:8443"), ""},
		{"a prefix", host("10.0.0.0/8:443"), "which is many addresses"},
		{"a URL", host("https://api.github.com"), "leave out scheme, user and path"},
		{"an unknown key", secretTable() + "value = \"x\"", "secrets[0].value does not exist"},
		{"not a header", header("Two Words"), `:6:1: secrets[0].header is "Two Words"; use the name of a header`},
		{"Host", header("Host"), `secrets[0].header is "Host", in which a secret cannot travel`},
		{"a cookie", header("cookie"), "in which a secret cannot travel"},
		{"the length", header("Content-Length"), "in which a secret cannot travel"},
		{"of the connection", header("Connection"), "in which a secret cannot travel"},
		{"a proxy's", header("Proxy-Authorization"), "in which a secret cannot travel"},
		{"the encoding", header("Transfer-Encoding"), "in which a secret cannot travel"},
		{"a browser's", header("Sec-Fetch-Site"), "in which a secret cannot travel"},
	} {
		w := newWorld(t)
		w.write(test.text)
		must.Do(t, os.WriteFile(filepath.Join(w.home, "token"), []byte("ghp_0123456789"), 0o600))
		findings := Check(w.options())
		if test.want == "" && len(findings) > 0 || test.want != "" && (len(findings) != 1 || !strings.Contains(findings.Error(), test.want)) {
			t.Errorf("%s: %q, want %q", test.name, findings.Error(), test.want)
		}
	}
}

func TestSecretsAreFilledIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(secretTable())
	if c, _ := w.load(w.options()); c.Secrets[0].Header != "Authorization" || c.Secrets[0].File != filepath.Join(w.home, "token") {
		t.Errorf("got %+v", c.Secrets[0])
	}
}

// A secret file inside a workspace is refused, because programs in the workspace could read it.
func TestSecretsOutsideOfWorkspaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write(secretTable("~/token", "~/ws/token") + "[[workspaces]]\nname = \"a\"\npath = \"~/ws\"")
	_, _, err := Load(w.options())
	if err == nil || !strings.Contains(err.Error(), "which overlaps secrets[0].file") {
		t.Errorf("got %v", err)
	}
}
