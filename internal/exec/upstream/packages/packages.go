// Package packages installs the packages that contain upstream MCP servers. npx, bunx, uvx and
// pipx would fetch such a package at each start. Instead it is resolved once, pinned with all its
// dependencies, installed by a decided call into a prefix of that server, and started from there.
// npm and pip run in a sandbox that reaches only the registry, and no script of a package runs.
//
// npm and pip select the versions, because another resolver might select a package other than the
// named one. They are not trusted: the pinned result is read and refused if a digest is missing. uv
// is not used: it uses the same index, wheels and digests, but has another lock format to verify
// and fetches Python from a separate host.
//
// The login of a private registry is a placeholder in a variable of npm or pip, and the egress
// proxy inserts the value. npm's user and password are not supported, because base64 cannot contain
// a placeholder.
package packages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
)

// Config configures a Service. All fields except Lender and Gateway are required.
type Config struct {
	// Dir belongs to the daemon. No other process may write to it.
	Dir    string
	Runner Runner
	// Ready returns the reason why programs of servers cannot run here, nil if they can.
	Ready func() error
	// SearchPath, Toolchains, Limits and Required are the settings of process.run.
	SearchPath []string
	Toolchains func() []command.Toolchain
	Limits     sandbox.Limits
	Required   []string
	// Lender lends the credentials of private registries; nil for none.
	Lender Lender
	// Gateway is the listener of the gateway, which is never a registry.
	Gateway *egress.Gateway
	Version string
}

// Runner runs programs in a sandbox and reports its current capabilities.
type Runner interface {
	sandbox.Runner
	Status() sandbox.Status
}

// Lender lends vault secrets to calls (builtin.Lender).
type Lender interface {
	Offers(ctx context.Context, p tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error)
	Lend(c tool.Call, offers []egress.Secret) (lent []egress.Secret, end func())
}

// Service manages the prefixes of all servers. It is safe for concurrent use.
type Service struct {
	use      Config
	resolver *command.Resolver
	// installing serializes installations: each may use a large share of the resources for runs.
	installing sync.Mutex
}

// New returns a Service.
func New(c Config) *Service {
	if len(c.SearchPath) == 0 {
		c.SearchPath = command.SearchPath()
	}
	if c.Toolchains == nil {
		c.Toolchains = func() []command.Toolchain { return nil }
	}
	return &Service{use: c, resolver: new(command.Resolver)}
}

// ecosystem holds the differences between npm and Python.
type ecosystem struct {
	// bins is the directory of the programs in a prefix, and env the variables that they need to
	// find their modules.
	bins string
	env  func(prefix string) []string
	// resolve is the command that pins a package, with its input files. wrote lists its output
	// files, and lock reads them.
	resolve func(w declared.PackageRequest, registry string) (argv []string, files map[string]string)
	// loginVariable is the variable that holds the credential of a private registry.
	loginVariable func(registry string) string
	wrote         []string
	lock          func(w declared.PackageRequest, r *declared.Resolution, wrote map[string][]byte) error
	// install is the command that installs a resolution.
	install func(r declared.Resolution) []string
	// programs returns the programs of the package itself.
	programs func(r declared.Resolution, prefix string) ([]string, error)
}

var ecosystems = map[declared.Ecosystem]ecosystem{declared.NPM: npm, declared.PyPI: python}

// Installed is the result of an installation.
type Installed struct {
	Package declared.Package `json:"package"`
	// Resolution is the digest of the installed resolution.
	Resolution string `json:"resolution"`
	// Programs are the package's own programs, by name. Program is the default one, "" if the
	// choice is ambiguous.
	Programs []string `json:"programs"`
	Program  string   `json:"program"`
	Files    int      `json:"files"`
	Bytes    int64    `json:"bytes"`
}

func (s *Service) prefixes(server string) string {
	return filepath.Join(s.use.Dir, "installed", server)
}

func hexOf(digest string) string { return strings.TrimPrefix(digest, "sha256:") }

func (s *Service) prefix(server, digest string) string {
	return filepath.Join(s.prefixes(server), hexOf(digest))
}

// Find returns the package installed for a server under a digest.
func (s *Service) Find(server, digest string) (declared.Package, error) {
	var one Installed
	text, err := os.ReadFile(s.prefix(server, digest) + ".json")
	if err == nil {
		err = json.Unmarshal(text, &one)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && one.Package.Prefix != digest:
		return declared.Package{}, reason.Errorf(reason.NotFound, "no package is installed for the upstream server %s under %s", server, digest).
			WithRemedy("Install the package first: `palyra mcp add %s -- npx PACKAGE` does both, and `palyra mcp update %s` reinstalls it.", server, server)
	case err != nil:
		return declared.Package{}, fmt.Errorf("reading the installation of %s: %w", server, err)
	}
	return one.Package, nil
}

// Open returns the mounts of a prefix for a sandbox. It does not check the content.
func (s *Service) Open(server string, p declared.Package) (command.Toolchain, error) {
	if _, err := s.Find(server, p.Prefix); err != nil {
		return command.Toolchain{}, err
	}
	prefix, err := filepath.EvalSymlinks(s.prefix(server, p.Prefix))
	if err != nil {
		return command.Toolchain{}, fmt.Errorf("reading the installation of %s: %w", server, err)
	}
	e := ecosystems[p.Ecosystem]
	return command.Toolchain{Name: "mcp/" + server, Bins: []string{filepath.Join(prefix, e.bins)}, Dirs: []string{prefix}, Env: e.env(prefix)}, nil
}

// Check reads the whole installation and returns an error if any byte differs from the approved
// one.
func (s *Service) Check(server string, p declared.Package) error {
	now, err := digestOf(s.prefix(server, p.Prefix))
	if err == nil && now.Digest == p.Prefix {
		return nil
	}
	refused := reason.Errorf(reason.DigestMismatch, "the installation of the upstream server %s differs from the approved one: %s %s was changed in %s", server, p.Name, p.Version, s.prefix(server, p.Prefix)).
		WithRemedy("Find out who changed it; then reinstall it with `palyra mcp update %s`.", server)
	if err != nil {
		return refused.WithCause(err)
	}
	return refused
}

// Keep removes the installations of a server except the given prefixes.
func (s *Service) Keep(server string, digests ...string) error {
	dir := s.prefixes(server)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the installation of %s: %w", server, err)
	}
	var errs []error
	for _, e := range entries {
		if !slices.ContainsFunc(digests, func(d string) bool { return hexOf(d) == strings.TrimSuffix(e.Name(), ".json") }) {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	if len(digests) == 0 {
		errs = append(errs, os.RemoveAll(dir), s.forget(server))
	}
	return errors.Join(errs...)
}

// Sweep removes the remains of removed servers and of interrupted installations. kept lists the
// digests in use, by server.
func (s *Service) Sweep(kept map[string][]string) error {
	errs := []error{os.RemoveAll(s.work())}
	entries, err := os.ReadDir(filepath.Join(s.use.Dir, "installed"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		errs = append(errs, err)
	}
	for _, e := range entries {
		errs = append(errs, s.Keep(e.Name(), kept[e.Name()]...))
	}
	return errors.Join(errs...)
}

func (s *Service) work() string { return filepath.Join(s.use.Dir, "work") }

// resolved returns the file of a resolution.
func (s *Service) resolved(server, digest string) string {
	return filepath.Join(s.use.Dir, "resolved", server+"-"+hexOf(digest)+".json")
}

// forget removes the resolutions of a server.
func (s *Service) forget(server string) error {
	entries, err := os.ReadDir(filepath.Join(s.use.Dir, "resolved"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, e := range entries {
		if at := strings.LastIndex(e.Name(), "-"); at > 0 && e.Name()[:at] == server {
			errs = append(errs, os.Remove(filepath.Join(s.use.Dir, "resolved", e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Resolution reads a resolution of a server.
func (s *Service) Resolution(server, digest string) (declared.Resolution, error) {
	var r declared.Resolution
	text, err := os.ReadFile(s.resolved(server, digest))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if now, digestErr := r.Digest(); err == nil && (digestErr != nil || now != digest) {
		err = fs.ErrNotExist // it belongs to another server or package
	}
	if errors.Is(err, fs.ErrNotExist) {
		return r, reason.Errorf(reason.NotFound, "the resolution %s does not exist for a server %s", digest, server).
			WithRemedy("Resolve a package with `palyra mcp add` or `palyra mcp update`.")
	}
	return r, err
}

func write(name string, value any) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	text, err := canonical.Marshal(value)
	if err != nil {
		return err
	}
	return keyfile.Write(name, text)
}

// scratch makes a working directory for npm and pip. remove deletes it.
func (s *Service) scratch(files map[string]string) (dir string, remove func(), err error) {
	if err := os.MkdirAll(s.work(), 0o700); err != nil {
		return "", nil, err
	}
	base, err := os.MkdirTemp(s.work(), "")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(base) } // the next start removes the rest
	dir = filepath.Join(base, "tree")
	if dir, err = resolvedDir(dir); err == nil {
		for name, text := range files {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644)) //nolint:gosec // the sandbox's user reads it
		}
	}
	if err != nil {
		remove()
		return "", nil, fmt.Errorf("making a directory for a package: %w", err)
	}
	return dir, remove, nil
}

func resolvedDir(dir string) (string, error) {
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // the sandbox's user passes it
		return "", err
	}
	return filepath.EvalSymlinks(dir)
}

// wrapped wraps an error of a sandboxed npm or pip.
func wrapped(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", what, err)
}
