package declared

import (
	"net/url"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/lazyregexp"
	"palyra/internal/egress"
)

// Ecosystem is a package ecosystem.
type Ecosystem string

// The ecosystems: NPM is for npx and bunx, PyPI for uvx and pipx.
const (
	NPM  Ecosystem = "npm"
	PyPI Ecosystem = "pypi"
)

// Package is the package that contains the program of a server. It was resolved once and
// installed into a prefix of that server, which is read-only.
type Package struct {
	Ecosystem Ecosystem `json:"ecosystem"`
	Name      string    `json:"name"`
	Version   string    `json:"version"`
	// Integrity is the package's digest from its registry: "sha512-<base64>" for npm,
	// "sha256:<hex>" for a wheel. The digests of its dependencies are in the resolution.
	Integrity string `json:"integrity"`
	// Registry is the URL from which it was resolved and fetched.
	Registry string `json:"registry"`
	// Login is the login used at the registry.
	Login RegistryLogin `json:"login,omitzero"`
	// Prefix is the digest of everything that was installed, "sha256:<hex>".
	Prefix string `json:"prefix"`
}

// String returns the package's name for display.
func (p Package) String() string {
	return p.Name + " " + p.Version + " (" + p.Integrity + ") of " + p.Registry
}

// PackageRequest is a request to install a package for a server.
type PackageRequest struct {
	Server    string    `json:"server"`
	Ecosystem Ecosystem `json:"ecosystem"`
	Name      string    `json:"name"`
	// Version is a version or a range in the syntax of the ecosystem: "1.2.3", "^1.2", "latest",
	// ">=2,<3"; "" selects the newest.
	Version string `json:"version,omitempty"`
	// Registry is a URL; "" selects the default registry.
	Registry string        `json:"registry,omitempty"`
	Login    RegistryLogin `json:"login,omitzero"`
}

// RegistryLogin is the credential for a private registry: a vault secret, by its reference
// without the scheme ("global/npm"), used as a token or as a user's password. npm and pip receive
// a placeholder of it. The zero value means no login.
type RegistryLogin struct {
	Secret string `json:"secret,omitempty"`
	// User is the user name for Basic authentication, for PyPI only; "" selects PyPI's user name
	// for tokens.
	User string `json:"user,omitempty"`
}

// Resolution pins a package and all its dependencies.
type Resolution struct {
	Server    string        `json:"server"`
	Ecosystem Ecosystem     `json:"ecosystem"`
	Name      string        `json:"name"`
	Version   string        `json:"version"`
	Integrity string        `json:"integrity"`
	Registry  string        `json:"registry"`
	Login     RegistryLogin `json:"login,omitzero"`
	// Hosts are the only hosts that the installation may reach.
	Hosts []string `json:"hosts"`
	// Parts lists all packages to install, including the package itself, sorted.
	Parts []Part `json:"parts"`
	// Scripts names the packages that declare install scripts. These scripts do not run.
	Scripts []string `json:"scripts,omitempty"`
	// Files are the lock files that the installer reads, by name.
	Files map[string]string `json:"files"`
}

// Part is one package of a resolution.
type Part struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Integrity string `json:"integrity"`
}

// Digest identifies the resolution. An approval is bound to it.
func (r Resolution) Digest() (string, error) { return canonical.DigestOf(r) }

// Registries are the default registries, each with the hosts that serve its files.
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
	// versionForm excludes paths, URLs and names of other packages.
	versionForm = lazyregexp.New(`^[A-Za-z0-9.*+!_~^<>=,-]{0,100}$`)
)

// Check returns an error for an invalid name, version or registry, before any program starts.
func (w PackageRequest) Check() error {
	names := map[Ecosystem]*lazyregexp.Regexp{NPM: npmName, PyPI: pypiExtra}[w.Ecosystem]
	switch {
	case !nameForm.MatchString(w.Server):
		return invalid("server", "%q is not a valid server name", w.Server)
	case names == nil:
		return invalid("ecosystem", "the ecosystem of a package must be npm or pypi, not %q", w.Ecosystem)
	case !names.MatchString(w.Name):
		return invalid("name", "%q is not a valid package name of %s", w.Name, w.Ecosystem)
	case !versionForm.MatchString(w.Version) || strings.HasPrefix(w.Version, "-"):
		return invalid("version", "%q is not a valid package version", w.Version)
	}
	if err := w.checkLogin(); err != nil {
		return err
	}
	_, _, err := w.From()
	return err
}

var registryUser = lazyregexp.New(`^[A-Za-z0-9._~-]{0,128}$`)

func (w PackageRequest) checkLogin() error {
	l := w.Login
	switch {
	case l == RegistryLogin{}:
		return nil
	case l.Secret == "":
		return invalid("registry_user", "a registry user requires a secret").WithRemedy("Add --registry-secret vault://global/NAME.")
	case strings.HasPrefix(w.Registry, "http://"):
		return invalid("registry", "a registry login is sent only over https")
	case w.Ecosystem == NPM && l.User != "":
		return invalid("registry_user", "npm registries accept a token, not a user")
	case !registryUser.MatchString(l.User):
		return invalid("registry_user", "%q is not a valid registry user", l.User)
	}
	return checkRefs([]string{l.Secret})
}

// From returns the registry and the hosts through which it is reached.
func (w PackageRequest) From() (registry string, hosts []string, err error) {
	usual := Registries[w.Ecosystem]
	registry = strings.TrimSuffix(w.Registry, "/")
	if registry == "" || registry == usual.URL {
		return usual.URL, usual.Hosts, nil
	}
	u, target, err := (Server{URL: registry}).Target()
	if err != nil {
		return "", nil, invalid("registry", "the registry %q is not a valid URL such as %s", registry, usual.URL)
	}
	if addr, is := target.Host.Addr(); u.Scheme == "http" && (!is || !addr.IsLoopback()) || u.RawQuery != "" {
		return "", nil, invalid("registry", "plain http is allowed only for registries on the loopback addresses of this machine").WithRemedy("Use https.")
	}
	if _, err := egress.ParseRule(target.String()); err != nil {
		return "", nil, err
	}
	return registry, []string{target.String()}, nil
}

// Holds reports whether a URL is on one of the hosts of the resolution.
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
		return invalid("command", "the program of a package must be named without a directory: %q has one", s.Command[0])
	}
	if !digestForm.MatchString(p.Prefix) {
		return invalid("package", "%q is not a valid digest of an installation", p.Prefix)
	}
	return nil
}

var digestForm = lazyregexp.New(`^sha256:[0-9a-f]{64}$`)
