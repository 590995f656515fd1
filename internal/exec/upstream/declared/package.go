package declared

import (
	"net/url"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/egress"
)

// Ecosystem is where a package comes from.
type Ecosystem string

// The ecosystems: those of npx and bunx, and of uvx and pipx.
const (
	NPM  Ecosystem = "npm"
	PyPI Ecosystem = "pypi"
)

// Package is what the program of a server is part of: a package of a registry that was
// resolved once and installed into a prefix of that server, which nobody writes to.
type Package struct {
	Ecosystem Ecosystem `json:"ecosystem"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	// Integrity is of the package itself, as its registry has it: "sha512-<base64>" of
	// npm, "sha256:<hex>" of a wheel. Those of what it needs are in the resolution.
	Integrity string `json:"integrity"`
	// Registry is the URL that it was resolved and fetched from.
	Registry string `json:"registry"`
	// Login is how the registry was logged in to.
	Login RegistryLogin `json:"login,omitzero"`
	// Prefix is the digest of everything that was installed, "sha256:<hex>".
	Prefix string `json:"prefix"`
}

// String names it for people.
func (p Package) String() string {
	return p.Name + " " + p.Version + " (" + p.Integrity + ") of " + p.Registry
}

// Wanted is a package that somebody wants for a server.
type Wanted struct {
	Server    string    `json:"server"`
	Ecosystem Ecosystem `json:"ecosystem"`
	Name      string    `json:"name"`
	// Version is a version or a range in the words of the ecosystem: "1.2.3", "^1.2",
	// "latest", ">=2,<3"; "" is the newest.
	Version string `json:"version,omitempty"`
	// Registry is a URL; "" is the registry that everybody uses.
	Registry string        `json:"registry,omitempty"`
	Login    RegistryLogin `json:"login,omitzero"`
}

// RegistryLogin is what a private registry is shown: a secret of the vault, by its
// reference without the scheme ("global/npm"), as a token or as the password of a user.
// npm and pip get a placeholder of it. The zero value is no login.
type RegistryLogin struct {
	Secret string `json:"secret,omitempty"`
	// User is that of Basic authentication, of PyPI alone; "" is PyPI's own name for
	// tokens.
	User string `json:"user,omitempty"`
}

// Resolution pins a package and everything that it needs.
type Resolution struct {
	Server    string        `json:"server"`
	Ecosystem Ecosystem     `json:"ecosystem"`
	Name      string        `json:"name"`
	Version   string        `json:"version"`
	Integrity string        `json:"integrity"`
	Registry  string        `json:"registry"`
	Login     RegistryLogin `json:"login,omitzero"`
	// Hosts are what the installation reaches, and nothing else.
	Hosts []string `json:"hosts"`
	// Parts are all packages that are installed, the package itself among them, sorted.
	Parts []Part `json:"parts"`
	// Scripts are those of them that would run programs while they are installed, and
	// do not get to.
	Scripts []string `json:"scripts,omitempty"`
	// Files are what the installer reads, by name: the lock.
	Files map[string]string `json:"files"`
}

// Part is one package of a resolution.
type Part struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Integrity string `json:"integrity"`
}

// Digest says what somebody approves.
func (r Resolution) Digest() (string, error) { return canonical.DigestOf(r) }

// Registries are those that everybody uses, and the hosts from which each hands out
// its files.
var Registries = map[Ecosystem]struct {
	URL   string
	Hosts []string
}{
	NPM:  {"https://registry.npmjs.org", []string{"registry.npmjs.org:443"}},
	PyPI: {"https://pypi.org/simple", []string{"pypi.org:443", "files.pythonhosted.org:443"}},
}

var (
	npmName   = lazyregexp.New(`^(@[a-z0-9][a-z0-9._~-]{0,100}/)?[a-z0-9][a-z0-9._~-]{0,200}$`)
	pypiExtra = lazyregexp.New(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,200}[A-Za-z0-9])?(\[[A-Za-z0-9._,-]{1,200}\])?$`)
	// versionForm has no room for a path, a URL or another package.
	versionForm = lazyregexp.New(`^[A-Za-z0-9.*+!_~^<>=,-]{0,100}$`)
)

// Check refuses what is no name, version or registry, before anything is started.
func (w Wanted) Check() error {
	names := map[Ecosystem]*lazyregexp.Regexp{NPM: npmName, PyPI: pypiExtra}[w.Ecosystem]
	switch {
	case !nameForm.MatchString(w.Server):
		return invalid("server", "%q is no name of a server", w.Server)
	case names == nil:
		return invalid("ecosystem", "the ecosystem of a package is npm or pypi, and not %q", w.Ecosystem)
	case !names.MatchString(w.Name):
		return invalid("name", "%q is no name of a package of %s", w.Name, w.Ecosystem)
	case !versionForm.MatchString(w.Version) || strings.HasPrefix(w.Version, "-"):
		return invalid("version", "%q is no version of a package", w.Version)
	}
	if err := w.checkLogin(); err != nil {
		return err
	}
	_, _, err := w.From()
	return err
}

var registryUser = lazyregexp.New(`^[A-Za-z0-9._~-]{0,128}$`)

func (w Wanted) checkLogin() error {
	l := w.Login
	switch {
	case l == RegistryLogin{}:
		return nil
	case l.Secret == "":
		return invalid("registry_user", "a user of a registry has a secret, too").WithRemedy("Name it: --registry-secret vault://global/NAME.")
	case strings.HasPrefix(w.Registry, "http://"):
		return invalid("registry", "a login travels by https alone")
	case w.Ecosystem == NPM && l.User != "":
		return invalid("registry_user", "registries of npm take a token, and no user")
	case !registryUser.MatchString(l.User):
		return invalid("registry_user", "%q is no user of a registry", l.User)
	}
	return checkRefs([]string{l.Secret})
}

// From is the registry and the hosts that it is reached by.
func (w Wanted) From() (registry string, hosts []string, err error) {
	usual := Registries[w.Ecosystem]
	registry = strings.TrimSuffix(w.Registry, "/")
	if registry == "" || registry == usual.URL {
		return usual.URL, usual.Hosts, nil
	}
	u, target, err := (Server{URL: registry}).Target()
	if err != nil {
		return "", nil, invalid("registry", "the registry %q is no URL such as %s", registry, usual.URL)
	}
	if addr, is := target.Host.Addr(); u.Scheme == "http" && (!is || !addr.IsLoopback()) || u.RawQuery != "" {
		return "", nil, invalid("registry", "plain http is for registries on the loopback addresses of this machine").WithRemedy("Use https.")
	}
	if _, err := egress.ParseRule(target.String()); err != nil {
		return "", nil, err
	}
	return registry, []string{target.String()}, nil
}

// Holds reports whether a URL is of one of the hosts of a resolution.
func (r Resolution) Holds(link string) bool {
	u, target, err := (Server{URL: link}).Target()
	registry, _ := url.Parse(r.Registry)
	if err != nil || registry == nil || u.Scheme != registry.Scheme {
		return false
	}
	for _, host := range r.Hosts {
		if host == target.String() {
			return true
		}
	}
	return false
}

func (s Server) checkPackage() error {
	p := s.Package
	if p == nil {
		return nil
	}
	if strings.ContainsAny(s.Command[0], "/\\") {
		return invalid("command", "the program of a package is named without a directory, and %q has one", s.Command[0])
	}
	if !digestForm.MatchString(p.Prefix) {
		return invalid("package", "%q is no digest of what was installed", p.Prefix)
	}
	return nil
}

var digestForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)
