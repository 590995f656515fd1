package policyadmin_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/exec/builtin"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

type oneOwner struct{}

func (oneOwner) List() []access.Member {
	return []access.Member{{Principal: access.User("local"), Roles: []access.Role{access.RoleOwner}}}
}
func (oneOwner) Roles() []access.Role           { return access.BuiltinRoles }
func (oneOwner) Subscribe(func()) (stop func()) { return func() {} }

type builtinTools struct{}

func (builtinTools) Descriptors() (list []tool.Descriptor) {
	for _, b := range builtin.New(builtin.Config{}) {
		list = append(list, b.Descriptor())
	}
	return list
}
func (builtinTools) Suspend(map[string]*reason.Error) {}

type noJournal struct{}

func (noJournal) Record(context.Context, event.Code, string, string, any) error { return nil }
func (noJournal) List(context.Context, journal.Filter) ([]journal.Event, error) { return nil, nil }

// opened returns an Admin that has loaded an empty directory.
func opened(t *testing.T) (*policyadmin.Admin, *gatewaytest.Log) { return openedAt(t, t.TempDir()) }

// openedAt returns an Admin that has loaded a directory.
func openedAt(t *testing.T, dir string, options ...func(*policyadmin.Config)) (*policyadmin.Admin, *gatewaytest.Log) {
	t.Helper()
	book := &gatewaytest.Log{}
	cfg := config.Default()
	cfg.Policy.Dir = dir
	use := policyadmin.Config{
		Guard:    change.Unguarded,
		Settings: cfg, Store: sqlite.NewPolicies(sqlitetest.Open(t)), Journal: noJournal{}, Engine: &policy.Engine{}, Members: oneOwner{}, Tools: builtinTools{},
		Swapped: func() {}, Log: book.Logger(),
	}
	for _, c := range options {
		c(&use)
	}
	p := policyadmin.New(use)
	must.Do(t, p.Loader.Load(t.Context()))
	return p, book
}

func operatorCaller() access.Caller { return access.Caller{Principal: access.User("local")} }

// forbids returns a policy file that denies one tool.
func forbids(name string) string {
	return fmt.Sprintf("@id(\"own.no-%[1]s\")\n@reason(\"no %[1]s\")\nforbid(principal, action == Action::\"tool.execute/%[1]s\", resource);\n", name)
}

// TestWatcherErrorsReload: after an overflow the directory is read again, and the watcher never
// blocks on its error.
func TestWatcherErrorsReload(t *testing.T) {
	t.Parallel()
	p, book := opened(t)
	before := p.Active.Set().Version()
	must.Write(t, filepath.Join(p.Loader.Dir(), "10-own.cedar"), forbids("echo"))
	events, faults, reload := make(chan fsnotify.Event), make(chan error), make(chan struct{})
	must.Run(t, func(ctx context.Context) error { return p.Watcher.Follow(ctx, events, faults, reload) })
	for range 3 {
		select {
		case faults <- fsnotify.ErrEventOverflow:
		case <-time.After(must.Patience):
			t.Fatal("an error of the watcher is not read")
		}
	}
	// The loop receives from reload only after it has handled the error.
	reload <- struct{}{}
	if after := p.Active.Set().Version(); after == before {
		t.Error("the directory was not read again after an overflow")
	}
	if book.Count("watching the policy directory failed") == 0 {
		t.Error("the log does not hold the overflow")
	}
}

// A change of the directory during an activation is reported and does not end it. Without an
// activation it is loaded.
func TestDirectoryChangesDuringAnActivation(t *testing.T) {
	t.Parallel()
	p, book := opened(t)
	empty := p.Active.Set().Version()
	must.Do(t, p.Loader.DirectoryChanged(t.Context()))
	must.Write(t, filepath.Join(p.Loader.Dir(), "10-own.cedar"), forbids("echo"))
	if err := p.Loader.DirectoryChanged(t.Context()); err != nil || p.Active.Set().Version() == empty {
		t.Fatalf("without an activation the directory is not loaded: %v", err)
	}
	must.Get(p.History.Activate(t.Context(), operatorCaller(), empty))(t)
	must.Write(t, filepath.Join(p.Loader.Dir(), "10-own.cedar"), forbids("sleep"))
	if err := p.Loader.DirectoryChanged(t.Context()); err != nil || p.Active.Set().Version() != empty {
		t.Errorf("the directory counts during an activation: %v", err)
	}
	if n := strings.Join(p.Loader.Notices(), ""); !strings.Contains(n, "changed and does not count") || book.Count("changed and does not count") != 1 {
		t.Errorf("the notice is %q", n)
	}
	if _, err := p.Loader.Reload(t.Context(), operatorCaller()); err != nil || p.Active.Set().Version() == empty || p.Loader.Notices() != nil {
		t.Errorf("the reload does not return to the directory: %v", err)
	}
}

// TestChangeOfComments: files that differ from the set in force only in comments are in force, also
// if a change requires a second person. Control: a change of a policy.
func TestChangeOfComments(t *testing.T) {
	t.Parallel()
	two := func(c *policyadmin.Config) { c.TakesTwo = func() bool { return true } }
	for name, change := range map[string][]func(*policyadmin.Config){"one person": nil, "two people": {two}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, "10-own.cedar")
			must.Write(t, file, forbids("echo"))
			p, _ := openedAt(t, dir, change...)
			before := p.Active.Set().Version()
			must.Write(t, file, "// Why: the tool is not needed.\n"+forbids("echo"))
			if p.Loader.Directory().InForce {
				t.Error("the changed file counts before it was read")
			}
			must.Do(t, p.Loader.DirectoryChanged(t.Context()))
			if d := p.Loader.Directory(); !d.InForce || p.Active.Set().Version() != before {
				t.Errorf("after a change of comments: %+v", d)
			}
			must.Write(t, file, forbids("sleep"))
			must.Do(t, p.Loader.DirectoryChanged(t.Context()))
			if d := p.Loader.Directory(); d.InForce != (change == nil) || (p.Active.Set().Version() == before) != (change != nil) {
				t.Errorf("after a change of a policy: %+v", d)
			}
		})
	}
}

// A directory that appears later, or replaces another, is loaded. If the directory disappears, its
// policies stay in force.
func TestDirectoryAppears(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	p, book := openedAt(t, filepath.Join(home, "palyra", "policies"))
	empty := p.Active.Set().Version()
	if d := p.Loader.Directory(); d.InForce || d.Present || !strings.Contains(d.Problem, "does not exist") {
		t.Errorf("before it is there: %+v", d)
	}
	ctx, look := t.Context(), make(chan time.Time)
	must.Run(t, func(ctx context.Context) error { return p.Watcher.FollowDirectory(ctx, look) })
	// The second value is received after the first was handled.
	looked := func() {
		for range 2 {
			look <- time.Time{}
		}
	}
	looked()
	if p.Active.Set().Version() != empty {
		t.Error("something is in force without a directory")
	}
	must.Do(t, os.MkdirAll(p.Loader.Dir(), 0o700))
	must.Write(t, filepath.Join(p.Loader.Dir(), "10-own.cedar"), forbids("echo"))
	looked()
	first := p.Active.Set().Version()
	if d := p.Loader.Directory(); first == empty || !d.InForce || d.Files != 1 || d.Policies != 1 {
		t.Errorf("the directory that appeared is not in force: %+v", d)
	}
	must.Do(t, os.Rename(p.Loader.Dir(), p.Loader.Dir()+".old"))
	looked()
	if d := p.Loader.Directory(); p.Active.Set().Version() != first || d.InForce || d.Policies != 1 || !strings.Contains(d.Problem, "has disappeared") {
		t.Errorf("after the directory went: %+v", d)
	}
	if book.Count("policy did not load") == 0 {
		t.Error("the log does not say that the directory is gone")
	}
	if _, err := p.Loader.Reload(ctx, operatorCaller()); err == nil || !strings.Contains(err.Error(), p.Loader.Dir()) {
		t.Errorf("a reload without the directory: %v", err)
	}
	must.Do(t, os.Mkdir(p.Loader.Dir(), 0o700))
	must.Write(t, filepath.Join(p.Loader.Dir(), "10-own.cedar"), forbids("sleep"))
	looked()
	if d := p.Loader.Directory(); p.Active.Set().Version() == first || !d.InForce {
		t.Errorf("the directory in the place of the first is not in force: %+v", d)
	}
	must.Get(p.History.Activate(ctx, operatorCaller(), first))(t)
	if d := p.Loader.Directory(); d.InForce || !strings.Contains(d.Problem, "activated") {
		t.Errorf("beside an activated version: %+v", d)
	}
}

// forgetful is a store without the last set in force.
type forgetful struct{ policyadmin.Store }

func (forgetful) LastPolicy(context.Context) (policyadmin.KeptVersion, bool, error) {
	return policyadmin.KeptVersion{}, false, nil
}

// unreadable is a store that fails to return the last set in force.
type unreadable struct{ policyadmin.Store }

func (unreadable) LastPolicy(context.Context) (policyadmin.KeptVersion, bool, error) {
	return policyadmin.KeptVersion{}, false, reason.Errorf(reason.JournalUnavailable, "the disk does not answer")
}

// Policies stay in force if their directory disappears while palyrad is stopped, until the
// directory exists again. Control: without a stored last set, palyrad starts without the
// operator's rules.
func TestDirectoryIsMissingAtStart(t *testing.T) {
	t.Parallel()
	known, dir := policyadmin.Store(sqlite.NewPolicies(sqlitetest.Open(t))), filepath.Join(t.TempDir(), "policies")
	start := func(store policyadmin.Store, tools policyadmin.Tools) (*policyadmin.Admin, *gatewaytest.Log, error) {
		log, cfg := &gatewaytest.Log{}, config.Default()
		cfg.Policy.Dir = dir
		p := policyadmin.New(policyadmin.Config{
			Guard:    change.Unguarded,
			Settings: cfg, Store: store, Journal: noJournal{}, Engine: &policy.Engine{}, Members: oneOwner{}, Tools: tools, Swapped: func() {}, Log: log.Logger(),
		})
		return p, log, p.Loader.Load(t.Context())
	}
	started := func(store policyadmin.Store) (*policyadmin.Admin, *gatewaytest.Log) {
		t.Helper()
		p, log, err := start(store, builtinTools{})
		must.Do(t, err)
		return p, log
	}
	p, log := started(known)
	empty := p.Active.Set().Version()
	if log.Count("policy directory is missing") != 0 || p.Loader.Directory().Policies != 0 {
		t.Error("a directory that never was is gone")
	}
	must.Do(t, os.Mkdir(dir, 0o700))
	must.Write(t, filepath.Join(dir, "10-own.cedar"), forbids("echo"))
	must.Write(t, filepath.Join(dir, "20-own.cedar"), forbids("fs.read"))
	p, _ = started(known)
	first := p.Active.Set().Version()
	// A set that comes into force again becomes the last set in force.
	must.Do(t, os.Remove(filepath.Join(dir, "20-own.cedar")))
	must.Get(p.Loader.Reload(t.Context(), operatorCaller()))(t)
	must.Write(t, filepath.Join(dir, "20-own.cedar"), forbids("fs.read"))
	must.Get(p.Loader.Reload(t.Context(), operatorCaller()))(t)
	must.Do(t, os.RemoveAll(dir))

	p, log = started(known)
	if d := p.Loader.Directory(); p.Active.Set().Version() != first || d.Policies != 2 || d.Present || d.InForce || !strings.Contains(d.Problem, "has disappeared") {
		t.Errorf("the start without the directory: %+v, version %s, want %s", d, p.Active.Set().Version(), first)
	}
	if log.Count("the policy directory is missing") != 1 {
		t.Error("the log does not say that the directory is gone")
	}
	if _, err := p.Loader.Reload(t.Context(), operatorCaller()); reason.Of(err) != reason.PolicyInvalid || p.Active.Set().Version() != first {
		t.Errorf("a reload without the directory: %v", err)
	}
	// palyrad does not start if the last set in force no longer loads.
	_, _, err := start(known, noTools{})
	if e := reason.Known(err, reason.Internal); !strings.Contains(err.Error(), dir) || !strings.Contains(e.NextStep(), "Create the directory again") {
		t.Errorf("the start with policies that do not load: %v", err)
	}
	_, _, err = start(unreadable{known}, builtinTools{})
	if e := reason.Known(err, reason.Internal); e.Code != reason.JournalUnavailable || !strings.Contains(e.NextStep(), "Create the directory again") {
		t.Errorf("the start with a store that cannot be read: %v", err)
	}
	// Control. The empty set is the last set in force for the rest of the test.
	if p, _ = started(forgetful{known}); p.Active.Set().Version() != empty {
		t.Error("control: the rules are in force although nobody knows of them")
	}
	if p, _ = started(known); p.Active.Set().Version() != empty {
		t.Error("the rules of before the last run are in force")
	}
	must.Do(t, os.Mkdir(dir, 0o700))
	if p, _ = started(known); p.Active.Set().Version() != empty || !p.Loader.Directory().InForce {
		t.Error("the empty directory does not count")
	}
}

// noTools has none of the tools that the policies name.
type noTools struct{ builtinTools }

func (noTools) Descriptors() []tool.Descriptor { return nil }

// A directory that cannot be read does not count as a directory without policies.
func TestDanglingLinkIsNotAnEmptyDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "policies")
	must.Do(t, os.Symlink("nowhere", dir))
	if _, _, err := policyadmin.ReadDir(dir); err == nil {
		t.Error("a link to nowhere counts as a directory without policies")
	}
	if _, _, err := policyadmin.ReadDir(dir + ".other"); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
}

// TestFirstStartBeforeTheServer: palyrad starts with a policy about a tool of a server that has
// not been added yet.
func TestFirstStartBeforeTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "10-own.cedar"), forbids("docs/delete"))
	p, _ := openedAt(t, dir)
	if d := p.Loader.Directory(); !d.InForce || d.Policies != 1 {
		t.Errorf("%+v", d)
	}
}
