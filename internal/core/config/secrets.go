package config

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"palyra/internal/core/lazyregexp"
)

// Secret is a credential that calls use without seeing it. A call holds a placeholder; palyrad
// replaces it in one header, on the way to the named hosts and over verified TLS only. A
// placeholder anywhere else is refused, and the value is replaced by the placeholder in responses
// and output (docs/tools.md). The value is read once for each program and each `http.fetch`, so
// that a new value takes effect at once; revoke the old one then, because it is no longer redacted.
// A file that cannot be used is reported at the start and by `palyra config check`, and calls that
// use the secret are refused. Credentials that sign requests (AWS, HMAC) are not supported. `palyra
// vault import` moves secrets into the vault (docs/vault.md). It can be set in the file only.
type Secret struct {
	// Name is the name in policies and placeholders: 1 to 32 of `a-z`, `0-9`, `-`. Required.
	Name string `toml:"name" json:"name"`
	// File is a file with the value, 8 to 4096 printable ASCII characters on one line. It is a
	// regular file, not a link, of mode 0600, owned by palyrad's user, outside of every workspace.
	// Required.
	File string `toml:"file" json:"file" path:"true"`
	// Hosts are the only hosts that receive the value, each with a port: `"api.github.com:443"`,
	// `"*.example.org:443"`. A wildcard below a domain in which anyone can register a host
	// (`*.com`, `*.github.io`) is refused, and so are prefixes. Required.
	Hosts []string `toml:"hosts" json:"hosts"`
	// Header is the only header that carries the value. The placeholder is its whole value, follows
	// a scheme (`Bearer`, `token`), or is the user or password of Basic authentication. `Cookie`,
	// `Host` and the headers of connections and proxies are refused. Default: `"Authorization"`.
	Header string `toml:"header" json:"header"`
	// Env is the variable that holds the placeholder in programs, such as `GITHUB_TOKEN`. If it is
	// empty, only `http.fetch` uses the secret. Variables that control loaders or interpreters are
	// refused.
	Env string `toml:"env" json:"env"`
}

// The length of values in bytes.
const (
	minSecret = 8
	maxSecret = 4096
)

// Value reads the value from the file. Callers call it at each use, so that a new value takes
// effect immediately. The error names the defect and the next step, and never contains the
// content.
func (s Secret) Value() ([]byte, error) {
	file := privateFile{path: s.File, kind: "secret", holds: "value", most: maxSecret + len("\r\n"), look: os.Lstat}
	text, err := file.read()
	if err != nil {
		return nil, err
	}
	value := bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r"))
	if problem := UnfitForHeader(value); problem != "" {
		clear(text)
		return nil, file.problem(problem, file.alone())
	}
	return value, nil
}

// UnfitForHeader returns the reason why a value cannot be sent in a header, or cannot be
// recognized in an answer; "" if it can.
func UnfitForHeader(value []byte) string {
	switch {
	case len(value) < minSecret:
		return fmt.Sprintf("holds fewer than %d bytes, too few to be recognised in answers", minSecret)
	case len(value) > maxSecret:
		return fmt.Sprintf("has more than %d bytes", maxSecret)
	case bytes.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
		return "holds more than one line, or characters that a header cannot hold"
	case value[0] == ' ' || value[len(value)-1] == ' ':
		return "begins or ends with a space"
	case bytes.Contains(value, []byte("palyra-sec-")):
		return "holds the placeholder of a secret, as programs see it"
	}
	return ""
}

// CheckPlaces returns the defects of a secret's hosts, header and variable, each if it is set.
// The keys of the findings are the keys in the configuration file.
func CheckPlaces(s Secret) Findings {
	k := &checker{}
	if s.Env != "" && !envForm.MatchString(s.Env) {
		k.find("env", "is "+quote(s.Env), wantEnv)
	}
	if s.Header != "" {
		k.secretHeader("header", s.Header)
	}
	if len(s.Hosts) > 0 {
		k.secretHosts("hosts", s.Hosts)
	}
	return k.findings
}

// wantEnv is the remedy for an invalid variable name.
const wantEnv = "use the name of a variable such as GITHUB_TOKEN"

// fillSecrets sets the defaults of the secrets.
func fillSecrets(c *Config, origins Origins) {
	for i := range c.Secrets {
		if _, given := origins[fmt.Sprintf("secrets[%d].header", i)]; !given {
			c.Secrets[i].Header = "Authorization"
		}
	}
}

var (
	secretForm = lazyregexp.New(`^[a-z0-9-]{1,32}$`)
	envForm    = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]{0,127}$`)
	headerForm = lazyregexp.New("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$") // RFC 9110 section 5.6.2
)

func checkSecrets(k *checker, c *Config) {
	names, variables := make(map[string]bool), make(map[string]bool)
	for i, s := range c.Secrets {
		each := fmt.Sprintf("secrets[%d]", i)
		if !secretForm.MatchString(s.Name) {
			k.find(each+".name", "is "+quote(s.Name), "use 1 to 32 of a-z, 0-9 and '-'")
		} else if names[s.Name] {
			k.find(each+".name", "is "+quote(s.Name)+" for the second time", "give each secret a name of its own")
		}
		names[s.Name] = true
		if s.Env != "" && !envForm.MatchString(s.Env) {
			k.find(each+".env", "is "+quote(s.Env), wantEnv)
		} else if s.Env != "" && variables[s.Env] {
			k.find(each+".env", "is "+quote(s.Env)+" for the second time", "give each secret a variable of its own")
		}
		variables[s.Env] = true
		if s.File == "" {
			k.find(each+".file", "is missing", "name a file of mode 0600 that holds the value")
		} else {
			k.absolute(each+".file", s.File)
		}
		k.secretHeader(each+".header", s.Header)
		k.secretHosts(each+".hosts", s.Hosts)
	}
}

// guided lists headers that cannot carry a secret: headers that determine the destination, length
// or transfer of a request (RFC 9110 section 7.6.1), and headers with their own value format, such
// as Cookie.
var guided = []string{
	"accept-encoding", "alt-used", "connection", "content-encoding", "content-length", "cookie", "cookie2", "date", "expect", "forwarded", "host", "http2-settings", "if-range",
	"keep-alive", "max-forwards", "origin", "range", "referer", "te", "trailer", "transfer-encoding", "upgrade", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto",
}

func (k *checker) secretHeader(key, name string) {
	lower := strings.ToLower(name)
	switch {
	case !headerForm.MatchString(name):
		k.find(key, "is "+quote(name), "use the name of a header such as Authorization")
	case slices.Contains(guided, lower) || strings.HasPrefix(lower, "proxy-") || strings.HasPrefix(lower, "sec-"):
		k.find(key, "is "+quote(name)+", in which a secret cannot travel", "use the header that the server documents for its credentials, such as Authorization or X-Api-Key")
	}
}

// secretHosts requires names or addresses with a port, and permits wildcards only below a domain
// with one owner.
func (k *checker) secretHosts(key string, hosts []string) {
	if len(hosts) == 0 {
		k.find(key, "is empty", `name the hosts that get the value, such as "api.example.org:443"`)
	}
	for _, rule := range hosts {
		before := len(k.findings)
		if k.hosts(key, []string{rule}); len(k.findings) > before {
			continue
		}
		host, port, err := net.SplitHostPort(rule)
		if n, wrong := strconv.Atoi(port); err != nil || wrong != nil || n < 1 || n > 65535 || host == "" {
			k.find(key, "has "+quote(rule)+", which names no port", "write host:port, such as "+quote(rule+":443"))
			continue
		}
		domain, wild := strings.CutPrefix(strings.ToLower(host), "*.")
		suffix, _ := publicsuffix.PublicSuffix(domain)
		switch {
		case strings.Contains(domain, "*"):
			k.find(key, "has "+quote(rule)+", which is neither a name nor an address", "name the hosts, or *.domain for every host below a domain")
		case strings.Contains(host, "/"):
			k.find(key, "has "+quote(rule)+", which is many addresses", "name the hosts one by one")
		case port == "80":
			k.find(key, "has "+quote(rule)+", the port of plain HTTP", "name the port on which the host speaks TLS, which is mostly 443")
		case wild && suffix == domain:
			k.find(key, "has "+quote(rule)+", below which anybody can have a host", "name the hosts, or a domain of one owner")
		}
	}
}
