// Package declared holds the declarations of upstream MCP servers and the definitions that these
// servers report: data and its validation. It starts no program and opens no connection.
//
// Stores and surfaces use it without access to the package that starts servers.
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
	"palyra/internal/exec/program/command"
	"palyra/internal/vault"
)

// Server is an upstream server as an operator declared it: either a program that runs in a
// sandbox and communicates through its standard input and output, or a URL.
type Server struct {
	// Name is the prefix of the names of its tools: "<name>/<tool>".
	Name string `json:"name"`

	// Command is the program and its arguments.
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Package is the installed package of the program, nil for a program of the host.
	Package *Package `json:"package,omitempty"`
	// Workspace is the declared workspace of the program, "" for none. With Write the program
	// writes to a copy; its changes pass the commit gate at the end of each call.
	Workspace string `json:"workspace,omitempty"`
	Write     bool   `json:"write,omitempty"`
	// Hosts are egress rules, with ports, for the hosts that the program may reach.
	Hosts []string `json:"hosts,omitempty"`
	// Secrets are vault secrets ("global/github") that the program may use for those hosts. The
	// program receives a placeholder of each. The secrets are lent to it during the calls of
	// principals that may use them.
	Secrets []string `json:"secrets,omitempty"`
	// Inject are vault secrets that the program receives as plain values, in the variable or file
	// that each secret defines. Each of them requires approval when the program starts.
	Inject []string `json:"inject,omitempty"`

	// URL is the endpoint of a server that is reached by Streamable HTTP.
	URL string `json:"url,omitempty"`
	// Headers are sent with each request to URL. Their values are vault secrets.
	Headers []Header `json:"headers,omitempty"`
	// OAuth, unless nil, makes the gateway send the token of its login with each request.
	OAuth *OAuth `json:"oauth,omitempty"`

	// Meta are the MCP _meta keys that callers may pass to its tools, as an argument.
	Meta []string `json:"meta,omitempty"`

	// Shared uses one instance for all principals; otherwise each principal has its own.
	Shared bool `json:"shared,omitempty"`
	// Trusted makes the gateway honor the annotations of its tools.
	Trusted bool `json:"trusted,omitempty"`
}

// Header is an HTTP header that holds a secret.
type Header struct {
	Name string `json:"name"`
	// Scheme precedes the secret, such as "Bearer"; "" for none.
	Scheme string `json:"scheme,omitempty"`
	// Secret is the vault reference without the scheme: "global/github".
	Secret string `json:"secret"`
}

var (
	nameForm   = lazyregexp.New(`^[a-z][a-z0-9_-]{0,31}$`)
	headerForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)
	schemeForm = lazyregexp.New(`^[A-Za-z][A-Za-z0-9-]{0,31}$`)
)

// taken are name prefixes of other tools and actions.
var taken = []string{"claude-code", "codex", "generic", "cursor", "vscode", "mcp", "palyra"}

// Limits of one declaration.
const (
	mostHosts   = 64
	mostSecrets = 16
	mostHeaders = 8
)

// Check returns an error for a server that cannot be started or dialled. Errors carry
// reason.InvalidInput or reason.HostInvalid.
func (s Server) Check() error {
	switch {
	case !nameForm.MatchString(s.Name):
		return invalid("name", "the name of a server is 1 to 32 of a-z, 0-9, '_' and '-', beginning with a letter: %q is not valid", s.Name)
	case slices.Contains(taken, s.Name):
		return invalid("name", "the name %s is reserved for the gateway", s.Name)
	case (len(s.Command) == 0) == (s.URL == ""):
		return invalid("command", "a server must have either a command or a URL")
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
		return invalid("headers", "a program cannot have headers or a login; declare its secrets and hosts")
	}
	if err := command.CheckArgv(s.Command); err != nil {
		return err
	}
	if err := command.CheckEnv(s.Environment()); err != nil {
		return err
	}
	if err := s.checkPackage(); err != nil {
		return err
	}
	if s.Write && s.Workspace == "" {
		return invalid("write", "a server that writes must have a workspace")
	}
	if len(s.Hosts) > mostHosts || len(s.Secrets)+len(s.Inject) > mostSecrets {
		return invalid("hosts", "a server may have at most %d hosts and %d secrets", mostHosts, mostSecrets)
	}
	reach, err := s.Reach()
	if err != nil {
		return err
	}
	if len(s.Secrets) > 0 && len(s.Hosts) == 0 {
		return invalid("secrets", "secrets are sent only to declared hosts, and the server has none").
			WithRemedy("Declare the hosts that receive them, such as api.github.com:443.")
	}
	if err := checkRefs(slices.Concat(s.Secrets, s.Inject)); err != nil {
		return err
	}
	return reach.Enforceable()
}

// Reach returns the hosts that the program may reach, without secrets.
func (s Server) Reach() (egress.Reach, error) {
	allow, err := egress.ParseRules(s.Hosts)
	return egress.Reach{Rules: egress.Rules{Allow: allow}}, err
}

// Environment returns its variables as name=value, sorted.
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
			return invalid("secrets", "the secret %q must be written as %q, once", text, ref.Name())
		}
	}
	return nil
}

func (s Server) checkRemote() error {
	if len(s.Env)+len(s.Hosts)+len(s.Secrets)+len(s.Inject) > 0 || s.Workspace != "" || s.Write || s.Package != nil {
		return invalid("url", "a server with a URL cannot have a package, environment, workspace, hosts or secrets; use headers")
	}
	u, target, err := s.Target()
	if err != nil {
		return err
	}
	if addr, is := target.Host.Addr(); u.Scheme == "http" && (!is || !addr.IsLoopback()) {
		return invalid("url", "plain http is allowed only for servers on the loopback addresses of this machine").WithRemedy("Use https.")
	}
	if len(s.Headers) > mostHeaders {
		return invalid("headers", "a server may have at most %d headers", mostHeaders)
	}
	var names, refs []string
	for _, h := range s.Headers {
		name := http.CanonicalHeaderKey(h.Name)
		if !headerForm.MatchString(h.Name) || slices.Contains(names, name) || ofProtocol(name) {
			return invalid("headers", "the header %q cannot be set or is declared twice", h.Name)
		}
		if h.Scheme != "" && !schemeForm.MatchString(h.Scheme) {
			return invalid("headers", "%q is not a valid scheme such as Bearer", h.Scheme)
		}
		names, refs = append(names, name), append(refs, h.Secret)
	}
	if err := checkRefs(refs); err != nil || s.OAuth == nil {
		return err
	}
	return s.OAuth.check(u, names, s.Shared)
}

// ofProtocol reports whether a header has a meaning in HTTP or MCP.
func ofProtocol(name string) bool {
	return strings.HasPrefix(name, "Mcp-") || slices.Contains([]string{
		"Accept", "Accept-Encoding", "Connection", "Content-Length", "Content-Type", "Cookie", "Host", "Last-Event-Id", "Origin", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade",
	}, name)
}

// Target parses URL and returns the host that it names.
func (s Server) Target() (*url.URL, egress.Target, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, egress.Target{}, invalid("url", "the URL of a server must be https://host/path, without user, password and fragment")
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

// Remote reports whether the server is reached by a URL.
func (s Server) Remote() bool { return s.URL != "" }

// SecretRefs returns the references of all secrets of the server.
func (s Server) SecretRefs() []string { return slices.Concat(s.Placeholders(), s.Inject) }

// Placeholders returns the references of the secrets that the server uses by placeholder.
func (s Server) Placeholders() []string {
	refs := slices.Clone(s.Secrets)
	for _, h := range s.Headers {
		refs = append(refs, h.Secret)
	}
	return refs
}

// Digest is computed over the whole declaration.
func (s Server) Digest() (string, error) { return canonical.DigestOf(s) }

// Where returns the command or URL for display.
func (s Server) Where() string {
	if s.Remote() {
		return s.URL
	}
	return fmt.Sprintf("%q", s.Command)
}
