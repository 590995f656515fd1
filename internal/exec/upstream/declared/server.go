// Package declared is what operators declared of upstream MCP servers, and what these
// said of themselves: data and its checks. It starts and dials nothing.
package declared

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/vault"
)

// Server is an upstream server as an operator declared it: a program that runs in a
// sandbox and is talked to by its standard input and output, or a URL.
type Server struct {
	// Name stands before the names of its tools: "<name>/<tool>".
	Name string `json:"name"`

	// Command is the program and its arguments.
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Package is what the program was installed with, nil for a program of the machine.
	Package *Package `json:"package,omitempty"`
	// Workspace is the declared workspace that the program sees, "" for none. It
	// writes to a copy of it if Write is set; what it changes passes the commit gate
	// at the end of each call.
	Workspace string `json:"workspace,omitempty"`
	Write     bool   `json:"write,omitempty"`
	// Hosts are egress rules with ports of what the program may reach.
	Hosts []string `json:"hosts,omitempty"`
	// Secrets are secrets of the vault ("global/github") that the program may use
	// for those hosts; it sees a placeholder of each, and they are lent to it while a
	// call of somebody who may use them runs.
	Secrets []string `json:"secrets,omitempty"`
	// Inject are secrets of the vault that the program gets as they are, each in the
	// variable or the file that it has there. People are asked about each when the
	// program starts.
	Inject []string `json:"inject,omitempty"`

	// URL is the endpoint of a server that is reached by Streamable HTTP.
	URL string `json:"url,omitempty"`
	// Headers are sent with each request to URL, filled with secrets of the vault.
	Headers []Header `json:"headers,omitempty"`
	// OAuth, unless nil, has the gateway show a token of its login with each request.
	OAuth *OAuth `json:"oauth,omitempty"`

	// Meta are keys of the _meta of MCP that its tools take from callers, as an argument.
	Meta []string `json:"meta,omitempty"`

	// Shared lets all principals use one instance; else each has its own.
	Shared bool `json:"shared,omitempty"`
	// Trusted lets the annotations of its tools count.
	Trusted bool `json:"trusted,omitempty"`
}

// Header is a header that holds a secret.
type Header struct {
	Name string `json:"name"`
	// Scheme stands before the secret, such as "Bearer"; "" for nothing.
	Scheme string `json:"scheme,omitempty"`
	// Secret is its reference without the scheme: "global/github".
	Secret string `json:"secret"`
}

var (
	nameForm   = lazyregexp.New(`^[a-z][a-z0-9_-]{0,31}$`)
	headerForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)
	schemeForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]{0,31}$`)
)

// taken are names that other tools and actions begin with.
var taken = []string{"claude-code", "codex", "generic", "cursor", "vscode", "mcp", "palyra"}

// The most that one server may name.
const (
	mostHosts   = 64
	mostSecrets = 16
	mostHeaders = 8
)

// Check refuses what could not be started or dialled. Errors carry
// reason.InvalidInput or reason.HostInvalid.
func (s Server) Check() error {
	switch {
	case !nameForm.MatchString(s.Name):
		return invalid("name", "the name of a server is 1 to 32 of a-z, 0-9, '_' and '-', beginning with a letter, and %q is not", s.Name)
	case slices.Contains(taken, s.Name):
		return invalid("name", "the name %s is taken by the gateway itself", s.Name)
	case (len(s.Command) == 0) == (s.URL == ""):
		return invalid("command", "a server has a command or a URL, and not both")
	}
	if err := s.checkMeta(); err != nil {
		return err
	}
	if s.URL != "" {
		return s.checkRemote()
	}
	return s.checkCommand()
}

func invalid(field, format string, args ...any) *reason.Error {
	return reason.Errorf(reason.InvalidInput, format, args...).WithField("field", field)
}

func (s Server) checkCommand() error {
	if len(s.Headers) > 0 || s.OAuth != nil {
		return invalid("headers", "a program has no headers and no login; name its secrets and hosts")
	}
	if err := sandbox.CheckArgv(s.Command); err != nil {
		return err
	}
	if err := sandbox.CheckEnv(s.Environment()); err != nil {
		return err
	}
	if err := s.checkPackage(); err != nil {
		return err
	}
	if s.Write && s.Workspace == "" {
		return invalid("write", "a server that writes has a workspace to write to")
	}
	if len(s.Hosts) > mostHosts || len(s.Secrets)+len(s.Inject) > mostSecrets {
		return invalid("hosts", "a server has at most %d hosts and %d secrets", mostHosts, mostSecrets)
	}
	reach, err := s.Reach()
	if err != nil {
		return err
	}
	if len(s.Secrets) > 0 && len(s.Hosts) == 0 {
		return invalid("secrets", "secrets travel to hosts, and the server has none").
			WithRemedy("Name the hosts that get them, such as api.github.com:443.")
	}
	if err := checkRefs(slices.Concat(s.Secrets, s.Inject)); err != nil {
		return err
	}
	return reach.Enforceable()
}

// Reach is what the program may reach, without secrets.
func (s Server) Reach() (egress.Reach, error) {
	allow, err := egress.ParseRules(s.Hosts)
	return egress.Reach{Rules: egress.Rules{Allow: allow}}, err
}

// Environment are its variables as name=value, sorted.
func (s Server) Environment() []string {
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		pairs = append(pairs, name+"="+s.Env[name])
	}
	return pairs
}

func checkRefs(refs []string) error {
	for i, text := range refs {
		ref, err := vault.ParseRef(text)
		if err != nil {
			return err
		}
		if ref.Name() != text || slices.Contains(refs[:i], text) {
			return invalid("secrets", "the secret %q is written as %q, once", text, ref.Name())
		}
	}
	return nil
}

func (s Server) checkRemote() error {
	if len(s.Env)+len(s.Hosts)+len(s.Secrets)+len(s.Inject) > 0 || s.Workspace != "" || s.Write || s.Package != nil {
		return invalid("url", "a server that is reached by a URL has no package, environment, workspace, hosts or secrets; it has headers")
	}
	u, target, err := s.Target()
	if err != nil {
		return err
	}
	if addr, is := target.Host.Addr(); u.Scheme == "http" && (!is || !addr.IsLoopback()) {
		return invalid("url", "plain http is for servers on the loopback addresses of this machine").WithRemedy("Use https.")
	}
	if len(s.Headers) > mostHeaders {
		return invalid("headers", "a server has at most %d headers", mostHeaders)
	}
	var names, refs []string
	for _, h := range s.Headers {
		name := http.CanonicalHeaderKey(h.Name)
		if !headerForm.MatchString(h.Name) || slices.Contains(names, name) || ofProtocol(name) {
			return invalid("headers", "%q is no header that can be set, or stands twice", h.Name)
		}
		if h.Scheme != "" && !schemeForm.MatchString(h.Scheme) {
			return invalid("headers", "%q is no scheme such as Bearer", h.Scheme)
		}
		names, refs = append(names, name), append(refs, h.Secret)
	}
	if err := checkRefs(refs); err != nil || s.OAuth == nil {
		return err
	}
	return s.OAuth.check(u, names, s.Shared)
}

// ofProtocol reports whether HTTP or MCP give a header its meaning.
func ofProtocol(name string) bool {
	return strings.HasPrefix(name, "Mcp-") || slices.Contains([]string{
		"Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Last-Event-Id", "Origin", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade",
	}, name)
}

// Target reads the URL: where it leads.
func (s Server) Target() (*url.URL, egress.Target, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, egress.Target{}, invalid("url", "the URL of a server is https://host/path, without user, password and fragment")
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host, err := egress.CanonicalHost(u.Hostname())
	if err != nil {
		return nil, egress.Target{}, err
	}
	number, err := egress.ParsePort(port)
	return u, egress.Target{Host: host, Port: number}, err
}

// Remote reports whether it is reached by a URL.
func (s Server) Remote() bool { return s.URL != "" }

// SecretRefs are the references of all secrets that the server uses.
func (s Server) SecretRefs() []string { return slices.Concat(s.Placeholders(), s.Inject) }

// Placeholders are the references of those that it uses by placeholders.
func (s Server) Placeholders() []string {
	refs := slices.Clone(s.Secrets)
	for _, h := range s.Headers {
		refs = append(refs, h.Secret)
	}
	return refs
}

// Digest is over everything that the operator declared.
func (s Server) Digest() (string, error) { return canonical.DigestOf(s) }

// Where says what is started or dialled, for people.
func (s Server) Where() string {
	if s.Remote() {
		return s.URL
	}
	return fmt.Sprintf("%q", s.Command)
}
