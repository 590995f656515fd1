// Package toolchain finds the programs that people installed beside the system,
// and what of the disk these consist of, so that the sandbox can show it read-only.
// One table says where. It never gives a directory that also holds credentials, nor
// one that agents, their programs or other users can write to: what is left out for
// that is told with the reason.
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
	"palyra/internal/exec/sandbox"
)

// Config says where to look.
type Config struct {
	// Home is the home directory of the person for whom programs run; "" leaves
	// out what lies in homes.
	Home string
	// Dirs are those of process_runner.toolchains.
	Dirs []string
	// Written are directories to which agents and their programs write.
	Written []Written
	// Covered are directories in whose place a sandbox has some of its own.
	Covered []string
}

// Written is a directory to which agents or their programs write. What says in a
// few words what it is: "the workspace here".
type Written struct{ Dir, What string }

// Found is what there is.
type Found struct {
	// Toolchains are in the order in which their programs are looked for.
	Toolchains []sandbox.Toolchain
	// Left are directories that are left out.
	Left []Left
}

// Left is a directory that is left out. Why goes on like "lies in the workspace
// here"; Asked says that the configuration names it.
type Left struct {
	Dir, Why string
	Asked    bool
}

// mostDirs bounds the mounts of a sandbox: each costs a little time, in every run.
const mostDirs = 16

// Find looks for toolchains: those of the configuration first, and then those of
// the table.
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

// asked adds a directory of the configuration. Where it has a directory bin, its
// programs are there.
func (f *finder) asked(dir string) {
	resolved, err := filepath.EvalSymlinks(dir)
	info, statErr := os.Stat(dir)
	if err != nil || statErr != nil || !info.IsDir() {
		f.found.Left = append(f.found.Left, Left{dir, "is no directory that can be opened", true})
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
	f.keep(sandbox.Toolchain{Name: "configured", Bins: []string{bin}, Dirs: []string{resolved}}, true)
}

// add adds what a row of the table says of one of its directories, if that is fit.
func (f *finder) add(r row, base string) {
	t := sandbox.Toolchain{Name: r.name, Bins: existing(base, r.bins), Dirs: existing(base, r.dirs)}
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

// addVersions has a toolchain show all of its versions, if each of them is fit.
func (f *finder) addVersions(t *sandbox.Toolchain, dir string) {
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

func (f *finder) keep(t sandbox.Toolchain, asked bool) {
	if len(sandbox.Shown(append(slices.Clone(f.found.Toolchains), t))) > mostDirs {
		f.found.Left = append(f.found.Left, Left{t.Dirs[0], fmt.Sprintf("comes after %d other directories, and a sandbox shows no more", mostDirs), asked})
		return
	}
	f.found.Toolchains = append(f.found.Toolchains, t)
}

// existing are the real paths of directories below a base that exist; without
// names it is that of the base.
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

// places are those of the sandbox and of the kernel.
var places = []string{
	sandbox.WorkspaceMount, sandbox.CacheMount, "/proc", "/sys", "/dev", "/run", "/etc", "/boot",
}

// unfit says why a directory is not shown; "" when it may be.
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
			return "lies where a sandbox has something of its own (" + place + ")"
		}
	}
	if f.Home != "" && below(f.Home, dir) {
		return "holds the home directory"
	}
	if sandbox.OfSystem(dir) {
		return "" // programs see it anyway
	}
	if why := writable(dir, asked); why != "" {
		return why
	}
	return secretive(dir)
}

// programsUnfit says why nothing is looked for where the programs of a directory
// are: others could put theirs there.
func programsUnfit(dir, bin string, asked bool) string {
	if bin == dir || sandbox.OfSystem(bin) {
		return ""
	}
	return writable(bin, asked)
}

// credentials are names under which tools and people keep what nobody else may read.
var credentials = []string{
	".npmrc", "npmrc", ".yarnrc", ".yarnrc.yml", ".pypirc", ".netrc", "_netrc", ".git-credentials", "credentials", "credentials.toml", "credentials.json",
	"auth.json", ".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "keyrings",
	".config", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".cargo", ".m2", ".gem",
	// pip's may name an index with a password in its address.
	"pip.conf", "pip.ini", ".pip", ".condarc", ".pgpass", ".my.cnf", ".boto", ".s3cfg", ".vault-token", ".terraformrc", ".terraform.d", ".dockercfg", ".envrc",
	".gradle", ".composer", ".nuget", ".subversion", ".password-store", ".htpasswd", "kubeconfig", "application_default_credentials.json", "hosts.yml",
}

// credentialEnds are how such names end.
var credentialEnds = []string{".kdbx", ".p12", ".pfx", ".ppk", ".key", "_rsa", "_ed25519", "_ecdsa"}

// credential reports whether a file of that name may be one, however it is spelled.
func credential(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains(credentials, name) || strings.HasPrefix(name, ".env.") ||
		slices.ContainsFunc(credentialEnds, func(end string) bool { return strings.HasSuffix(name, end) })
}

// mostNames bounds how many names are looked at in one directory.
const mostNames = 20_000

// secretive says which credential lies in a directory or in one right below it.
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
			found = errors.New("has too many files to look for credentials")
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
		return "cannot be looked through for credentials"
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

// For are the settings of a daemon. A palyrad with a user of its own has no
// person's home directory, and takes toolchains from the configuration only.
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

// current is how long what was found counts. It is short, so that what somebody
// installs is there for the next call, and what somebody removes is in nobody's way.
const current = 2 * time.Second

// Toolchains are looked for again as time goes by. They may be used by several
// goroutines.
type Toolchains struct {
	config Config

	mu    sync.Mutex
	found Found
	until time.Time
}

// New returns toolchains that are looked for when somebody asks.
func New(c Config) *Toolchains { return &Toolchains{config: c} }

// Now is what there is.
func (t *Toolchains) Now() Found {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now := time.Now(); now.After(t.until) {
		t.found, t.until = Find(t.config), now.Add(current)
	}
	return t.found
}
