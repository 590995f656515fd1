// Package toolchain finds programs outside of the system directories, and their files, so that
// the sandbox can mount them read-only. A table lists the places. The package never returns a
// directory that contains credentials, or that agents, their programs or other users can write
// to. Each directory skipped for such a reason is reported with the reason.
//
// Programs of rustup, pyenv and asdf that only select a version are not used: they need a
// shell, a home directory and a place to write. Whole directories are mounted, because the
// individual files that node or cargo need are not known.
package toolchain

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/config"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// Config configures the search.
type Config struct {
	// Home is the home directory of the person for whom programs run; "" skips all places in
	// homes.
	Home string
	// Dirs are the directories of process_runner.toolchains.
	Dirs []string
	// Written are directories that agents and their programs write to.
	Written []Written
	// Covered are directories that a sandbox replaces by its own.
	Covered []string
}

// Written is a directory that agents or their programs write to. The field What describes it
// briefly, such as "the workspace here".
type Written struct{ Dir, What string }

// Found is the result of a search.
type Found struct {
	// Toolchains are in the order in which their programs are looked up.
	Toolchains []command.Toolchain
	// Left are the skipped directories.
	Left []Left
}

// Left is a skipped directory. Why completes a sentence, such as "lies in the workspace here".
// Asked reports that the configuration names the directory.
type Left struct {
	Dir, Why string
	Asked    bool
}

// mostDirs is the maximum number of mounts for toolchains: each takes a little time in every run.
const mostDirs = 16

// Find searches for toolchains: first the configured ones, then the table's.
func Find(c Config) Found {
	f := finder{Config: c}
	for i := range f.Written {
		f.Written[i].Dir = real(f.Written[i].Dir)
	}
	for _, dir := range c.Dirs {
		f.asked(dir)
	}
	for _, r := range table {
		for _, base := range r.bases(c.Home) {
			f.add(r, base)
		}
	}
	return f.found
}

type finder struct {
	Config
	found Found
}

// asked adds a configured directory. If it has a directory bin, its programs are there.
func (f *finder) asked(dir string) {
	resolved, err := filepath.EvalSymlinks(dir)
	info, statErr := os.Stat(dir)
	if err != nil || statErr != nil || !info.IsDir() {
		f.found.Left = append(f.found.Left, Left{dir, "is not a directory that can be opened", true})
		return
	}
	bin := filepath.Join(resolved, "bin")
	if info, err := os.Lstat(bin); err != nil || !info.IsDir() {
		bin = resolved
	}
	if why := cmp.Or(f.unfit(resolved, true), programsUnfit(resolved, bin, true)); why != "" {
		f.found.Left = append(f.found.Left, Left{resolved, why, true})
		return
	}
	f.keep(command.Toolchain{Name: "configured", Bins: []string{bin}, Dirs: []string{resolved}}, true)
}

// add adds a directory of a row of the table if it is fit.
func (f *finder) add(r row, base string) {
	t := command.Toolchain{Name: r.name, Bins: existing(base, r.bins), Dirs: existing(base, r.dirs)}
	if len(t.Bins) == 0 {
		return
	}
	for _, dir := range t.Dirs {
		if why := f.unfit(dir, false); why != "" {
			f.found.Left = append(f.found.Left, Left{dir, why, false})
			return
		}
	}
	for _, bin := range t.Bins {
		if why := programsUnfit(t.Dirs[0], bin, false); why != "" || !t.Holds(bin) {
			f.found.Left = append(f.found.Left, Left{t.Dirs[0], cmp.Or(why, "has its programs elsewhere, in "+bin), false})
			return
		}
	}
	for _, dir := range r.with {
		dir, ok := expand(dir, f.Home)
		resolved, err := filepath.EvalSymlinks(dir)
		if !ok || err != nil {
			continue
		}
		if why := f.unfit(resolved, false); why != "" {
			f.found.Left = append(f.found.Left, Left{resolved, why, false})
			continue
		}
		t.Dirs = append(t.Dirs, resolved)
	}
	if r.all {
		f.addVersions(&t, filepath.Dir(base))
	}
	f.keep(t, false)
}

// addVersions mounts all versions of a toolchain if each of them is fit.
func (f *finder) addVersions(t *command.Toolchain, dir string) {
	dir = real(dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	why := f.unfit(dir, false)
	for _, entry := range entries {
		if why == "" && entry.IsDir() {
			version := filepath.Join(dir, entry.Name())
			if why = f.unfit(version, false); why == "" {
				for _, bin := range existing(version, []string{"bin"}) {
					why = programsUnfit(version, bin, false)
				}
			}
			if why != "" {
				why = "has " + entry.Name() + ", which " + why
			}
		}
	}
	if why != "" {
		f.found.Left = append(f.found.Left, Left{dir, why, false})
		return
	}
	t.Versions, t.Dirs = dir, append(t.Dirs, dir)
}

func (f *finder) keep(t command.Toolchain, asked bool) {
	if len(command.Shown(append(slices.Clone(f.found.Toolchains), t))) > mostDirs {
		f.found.Left = append(f.found.Left, Left{t.Dirs[0], fmt.Sprintf("exceeds the limit of %d directories in a sandbox", mostDirs), asked})
		return
	}
	f.found.Toolchains = append(f.found.Toolchains, t)
}

// existing returns the real paths of existing directories below a base; without names it returns
// the base.
func existing(base string, names []string) []string {
	if names == nil {
		names = []string{"."}
	}
	var list []string
	for _, name := range names {
		resolved, err := filepath.EvalSymlinks(filepath.Join(base, name))
		if err != nil || slices.Contains(list, resolved) {
			continue
		}
		if info, err := os.Stat(resolved); err == nil && info.IsDir() {
			list = append(list, resolved)
		}
	}
	return list
}

// places are directories of the sandbox and of the kernel.
var places = []string{
	command.WorkspaceMount, sandbox.CacheMount, "/proc", "/sys", "/dev", "/run", "/etc", "/boot",
}

// unfit returns the reason why a directory is skipped; "" if it is fit.
func (f *finder) unfit(dir string, asked bool) string {
	for _, w := range f.Written {
		switch {
		case below(dir, w.Dir):
			return "lies in " + w.What + ", to which agents write"
		case below(w.Dir, dir):
			return "holds " + w.What + ", to which agents write"
		}
	}
	for _, place := range slices.Concat(places, f.Covered) {
		if below(dir, place) || below(place, dir) {
			return "is inside a directory that a sandbox replaces (" + place + ")"
		}
	}
	if f.Home != "" && below(f.Home, dir) {
		return "contains the home directory"
	}
	if command.OfSystem(dir) {
		return "" // visible to programs anyway
	}
	if why := writable(dir, asked); why != "" {
		return why
	}
	return secretive(dir)
}

// programsUnfit returns the reason why the directory of programs is not searched: others could
// add programs there.
func programsUnfit(dir, bin string, asked bool) string {
	if bin == dir || command.OfSystem(bin) {
		return ""
	}
	return writable(bin, asked)
}

// credentials are names under which tools and people store secrets.
var credentials = []string{
	".npmrc", "npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".netrc", "_netrc", ".git-credentials", "credentials", "credentials.toml", "credentials.json",
	"auth.json", ".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "keyrings",
	".config", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".cargo", ".m2", ".gem",
	// pip's files may name an index with a password in its address.
	"pip.conf", "pip.ini", ".pip", ".condarc", ".pgpass", ".my.cnf", ".boto", ".s3cfg", ".vault-token", ".terraformrc", ".terraform.d", ".dockercfg", ".envrc",
	".gradle", ".composer", ".nuget", ".subversion", ".password-store", ".htpasswd", "kubeconfig", "application_default_credentials.json", "hosts.yml",
}

// credentialEnds are suffixes of such names.
var credentialEnds = []string{".kdbx", ".p12", ".pfx", ".ppk", ".key", "_rsa", "_ed25519", "_ecdsa"}

// credential reports whether a file of that name may be a credential, in any spelling.
func credential(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(credentials, name) || strings.HasPrefix(name, ".env.") ||
		slices.ContainsFunc(credentialEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

// mostNames is the maximum number of names checked in one directory.
const mostNames = 20_000

// secretive returns the reason why a directory, or one of its direct subdirectories, may
// contain a credential; "" for none.
func secretive(dir string) string {
	names := 0
	var found error
	err := filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		names++
		rest, _ := filepath.Rel(dir, name)
		switch {
		case name == dir:
			return nil
		case credential(entry.Name()):
			found = errors.New("holds " + rest + ", which may be a credential")
			return found
		case names > mostNames:
			found = errors.New("has too many files to check for credentials")
			return found
		case entry.IsDir() && strings.ContainsRune(rest, filepath.Separator):
			return fs.SkipDir
		}
		return nil
	})
	switch {
	case found != nil:
		return found.Error()
	case err != nil:
		return "cannot be checked for credentials"
	}
	return ""
}

func real(dir string) string {
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		return resolved
	}
	return filepath.Clean(dir)
}

func below(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
}

// For returns the configuration for a daemon. A palyrad with its own user has no person's home
// directory, and uses only configured toolchains.
func For(cfg *config.Config, tier sandbox.Tier) Config {
	c := Config{Home: operatorHome(), Dirs: cfg.ProcessRunner.Toolchains}
	for _, w := range cfg.Workspaces {
		c.Written = append(c.Written, Written{w.Path, "the workspace " + w.Name})
	}
	if cfg.StateDir != "" {
		c.Written = append(c.Written, Written{cfg.StateDir, "the state directory"})
	}
	if tier == sandbox.TierB {
		c.Covered = []string{"/tmp"}
	}
	return c
}

// current is how long a result is cached. It is short, so that an installation or removal takes
// effect for the next call.
const current = 2 * time.Second

// Toolchains caches the found toolchains for a short time. It is safe for concurrent use.
type Toolchains struct {
	config Config

	mu    sync.Mutex
	found Found
	until time.Time
}

// New returns toolchains that are searched for on demand.
func New(c Config) *Toolchains { return &Toolchains{config: c} }

// Now returns the current result.
func (t *Toolchains) Now() Found {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.After(t.until) {
		t.found, t.until = Find(t.config), now.Add(current)
	}
	return t.found
}
