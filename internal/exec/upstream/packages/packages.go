// Package packages installs the packages that upstream MCP servers are part of: what
// npx, bunx, uvx and pipx would fetch anew at each start is resolved once, pinned with
// everything that it needs, installed by a decided call into a prefix of that server, and
// started from there. npm and pip run in a sandbox that reaches the registry alone, and no
// script of a package runs.
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
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
)

// Config is what a Service works with. All fields but Lender and Gateway are required.
type Config struct {
	// Dir belongs to the daemon, and nobody else writes to it.
	Dir    string
	Runner Runner
	// Ready is why no program of a server can run here, nil where one can.
	Ready func() error
	// SearchPath, Toolchains, Limits and Required are those of process.run.
	SearchPath []string
	Toolchains func() []sandbox.Toolchain
	Limits     sandbox.Limits
	Required   []string
	// Lender lends what private registries want; nil for none.
	Lender Lender
	// Gateway is where the gateway itself listens, which no registry is.
	Gateway *egress.Gateway
	Version string
}

// Runner runs programs in a sandbox, and says what it can do at present.
type Runner interface {
	sandbox.Runner
	Status() sandbox.Status
}

// Lender lends secrets of the vault to calls (builtin.Lender).
type Lender interface {
	Offers(ctx context.Context, p tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error)
	Lend(c tool.Call, offers []egress.Secret) (lent []egress.Secret, end func())
}

// Service has the prefixes of all servers. It may be used by several goroutines.
type Service struct {
	use      Config
	resolver *sandbox.Resolver
	// installing keeps installations apart: each may use much of what runs may use.
	installing sync.Mutex
}

// New returns a Service.
func New(c Config) *Service {
	if len(c.SearchPath) == 0 {
		c.SearchPath = sandbox.SearchPath()
	}
	if c.Toolchains == nil {
		c.Toolchains = func() []sandbox.Toolchain { return nil }
	}
	return &Service{use: c, resolver: new(sandbox.Resolver)}
}

// ecosystem is what differs between npm and Python.
type ecosystem struct {
	// bins is where the programs are in a prefix, and env what they need to find
	// their parts.
	bins string
	env  func(prefix string) []string
	// resolve is the command that pins a package, with the files that it reads, wrote the
	// files that it leaves, and lock what that comes to.
	resolve func(w declared.Wanted, registry string) (argv []string, files map[string]string)
	// loginVariable is where it finds what a private registry wants.
	loginVariable func(registry string) string
	wrote         []string
	lock          func(w declared.Wanted, r *declared.Resolution, wrote map[string][]byte) error
	// install is the command that installs what is pinned.
	install func(r declared.Resolution) []string
	// programs are those that are the package's own.
	programs func(r declared.Resolution, prefix string) ([]string, error)
}

var ecosystems = map[declared.Ecosystem]ecosystem{declared.NPM: npm, declared.PyPI: python}

// Installed is what an installation made.
type Installed struct {
	Package declared.Package `json:"package"`
	// Resolution is the digest of what was installed from.
	Resolution string `json:"resolution"`
	// Programs are the package's own, by name, and Program the one that is meant when
	// nobody names one; "" if that cannot be told.
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

// Find returns what was installed for a server under a digest.
func (s *Service) Find(server, digest string) (declared.Package, error) {
	var one Installed
	text, err := os.ReadFile(s.prefix(server, digest) + ".json")
	if err == nil {
		err = json.Unmarshal(text, &one)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && one.Package.Prefix != digest:
		return declared.Package{}, reason.Errorf(reason.NotFound, "nothing is installed for the upstream server %s under %s", server, digest).
			WithRemedy("Install the package first: `palyra mcp add %s -- npx PACKAGE` does both, and `palyra mcp update %s` installs it anew.", server, server)
	case err != nil:
		return declared.Package{}, fmt.Errorf("reading what was installed for %s: %w", server, err)
	}
	return one.Package, nil
}

// Open returns what a sandbox has to show of a prefix. It does not look at what is in it.
func (s *Service) Open(server string, p declared.Package) (sandbox.Toolchain, error) {
	if _, err := s.Find(server, p.Prefix); err != nil {
		return sandbox.Toolchain{}, err
	}
	prefix, err := filepath.EvalSymlinks(s.prefix(server, p.Prefix))
	if err != nil {
		return sandbox.Toolchain{}, fmt.Errorf("looking at what is installed for %s: %w", server, err)
	}
	e := ecosystems[p.Ecosystem]
	return sandbox.Toolchain{Name: "mcp/" + server, Bins: []string{filepath.Join(prefix, e.bins)}, Dirs: []string{prefix}, Env: e.env(prefix)}, nil
}

// Check reads everything that is installed and refuses what is not to the byte what was
// approved.
func (s *Service) Check(server string, p declared.Package) error {
	now, err := digestOf(s.prefix(server, p.Prefix))
	if err == nil && now.Digest == p.Prefix {
		return nil
	}
	refused := reason.Errorf(reason.DigestMismatch, "what is installed for the upstream server %s is not what was approved: %s %s was changed in %s", server, p.Name, p.Version, s.prefix(server, p.Prefix)).
		WithRemedy("Find out who wrote there; then install it anew with `palyra mcp update %s`.", server)
	if err != nil {
		return refused.WithCause(err)
	}
	return refused
}

// Keep removes what is installed for a server but the prefixes that are named.
func (s *Service) Keep(server string, digests ...string) error {
	dir := s.prefixes(server)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at what is installed for %s: %w", server, err)
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

// Sweep removes what is left of servers that there are no more, and of installations
// that were cut off. kept are the digests in use, by server.
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

// resolved is the file of a resolution.
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

// Resolution reads one that was made for a server.
func (s *Service) Resolution(server, digest string) (declared.Resolution, error) {
	var r declared.Resolution
	text, err := os.ReadFile(s.resolved(server, digest))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if now, digestErr := r.Digest(); err == nil && (digestErr != nil || now != digest) {
		err = fs.ErrNotExist // of something else by now
	}
	if errors.Is(err, fs.ErrNotExist) {
		return r, reason.Errorf(reason.NotFound, "no package was resolved as %s for a server %s", digest, server).
			WithRemedy("`palyra mcp add` and `palyra mcp update` resolve packages.")
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

// scratch makes a directory in which npm and pip work, and what removes it.
func (s *Service) scratch(files map[string]string) (dir string, remove func(), err error) {
	if err := os.MkdirAll(s.work(), 0o700); err != nil {
		return "", nil, err
	}
	base, err := os.MkdirTemp(s.work(), "")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(base) } // a start removes what is left
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

// wrapped says what failed of a sandboxed npm or pip.
func wrapped(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%s: %w", what, err)
}
