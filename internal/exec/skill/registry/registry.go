// Package registry knows which skills are installed, who signed them, and which of them may
// run. It keeps their packages as files and what it knows of them in a store, and runs
// nothing.
//
// Each version of a skill is a package that never changes. One version of a skill is the
// current one, whose tools are the skill's. What a row of the store says is compared with
// what the journal says at the start, and the file of a package with its digest, its
// signature and the pinned key of its publisher whenever it is loaded.
package registry

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/wasm/guest"
)

// Status says whether a version may run.
type Status string

// The statuses. Whatever has none of them does not run.
const (
	Active Status = "active"
	// Quarantined is that somebody has doubts: it is kept to be looked at.
	Quarantined Status = "quarantined"
	// Disabled is that nobody wants it now.
	Disabled Status = "disabled"
)

// Statuses lists all.
var Statuses = []Status{Active, Quarantined, Disabled}

// Installed is one version of a skill.
type Installed struct {
	Skill, Version string
	// Publisher signed it with the key KeyID, an OpenSSH fingerprint.
	Publisher, KeyID string
	// Digest is "sha256:" and the digest of the package's file.
	Digest string
	Status Status
	// Why is what whoever changed the status last said, "" for nothing.
	Why string
	// Manifest is that of the package. Where Problem is not nil it has no tools.
	Manifest    *skill.Manifest
	InstalledBy access.Principal
	InstalledAt time.Time
	// ChangedBy changed the status last, or made it the current version.
	ChangedBy access.Principal
	ChangedAt time.Time
	// Current is the version whose tools are the skill's: at most one of a skill.
	Current bool
	// Problem is why it does not run whatever its status: its file or its row was changed.
	Problem error
}

// Name is the version for people, such as notes@1.2.0.
func (i Installed) Name() string { return i.Skill + "@" + i.Version }

// runs reports whether its tools may be called.
func (i Installed) runs() bool { return i.Current && i.Status == Active && i.Problem == nil }

// Publisher is a name and the one key that signs for it.
type Publisher struct {
	Name string
	// KeyID is the OpenSSH fingerprint of PublicKey.
	KeyID     string
	PublicKey ed25519.PublicKey
	// FirstUse is that the key was pinned when a skill of the publisher was first
	// installed, and that nobody named it since.
	FirstUse bool
	// Distrusted is that nothing of the publisher runs or is installed until somebody
	// trusts a key of it.
	Distrusted bool
	By         access.Principal
	At         time.Time
	// Problem is why the key counts for nothing: the row was changed.
	Problem error
}

// The most that is kept.
const (
	mostVersions   = 200
	mostOfOneSkill = 20
	mostPublishers = 200
	// mostBytes is the size of all packages.
	mostBytes = 1 << 30
)

// Config is what a Registry works with.
type Config struct {
	Store Store
	// Dir is the directory of the packages. Only palyrad writes it.
	Dir string
	// Limits are what packages are held to.
	Limits skill.Limits
	// Compile compiles a module before it is installed; nil compiles none.
	Compile func(context.Context, guest.Module) error
	// Changed is told after each change of what may run; nil is nobody.
	Changed func(context.Context) error
	Log     *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Registry is what is installed.
type Registry struct {
	c     Config
	files files
	cache cache
	stage staging

	// changing is held during a change, so that what was looked at is what is changed.
	changing sync.Mutex
	// mu guards what follows.
	mu         sync.RWMutex
	versions   map[string]Installed // by Name
	publishers map[string]Publisher
	// told are the damages that the journal has.
	told map[string]bool
	// reached is told of the steps of a change, for tests that stop there.
	reached func(step string)
}

// New reads what is installed. A package or row that was changed keeps nothing else from
// running: it has a Problem, and the journal has an event of it.
func New(ctx context.Context, c Config) (*Registry, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := keyfile.MakeDir(c.Dir); err != nil {
		return nil, err
	}
	r := &Registry{
		c: c, files: files{dir: c.Dir}, versions: map[string]Installed{}, publishers: map[string]Publisher{}, told: map[string]bool{}, reached: func(string) {},
		stage: staging{uploads: map[uploadKey]*upload{}, staged: map[string]staged{}},
	}
	kept, err := c.Store.Skills(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.take(ctx, kept); err != nil {
		return nil, err
	}
	return r, r.files.sweep(kept.digests())
}

// now is the time of a change.
func (r *Registry) now() time.Time { return r.c.Now().UTC().Truncate(time.Microsecond) }

// List returns all versions, by skill, the newest first.
func (r *Registry) List() []Installed {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Installed, 0, len(r.versions))
	for _, i := range r.versions {
		list = append(list, i)
	}
	slices.SortFunc(list, func(a, b Installed) int {
		if c := strings.Compare(a.Skill, b.Skill); c != 0 {
			return c
		}
		return compareVersions(b.Version, a.Version)
	})
	return list
}

// Get returns a version of a skill; "" is the current one.
func (r *Registry) Get(name, version string) (Installed, error) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if version != "" {
		i, there := r.versions[Installed{Skill: name, Version: version}.Name()]
		if !there {
			return Installed{}, missing(name, version)
		}
		return i, nil
	}
	known := false
	for _, i := range r.versions {
		if i.Skill == name && i.Current {
			return i, nil
		}
		known = known || i.Skill == name
	}
	if known {
		return Installed{}, reason.Errorf(reason.NotFound, "no version of the skill %s is the current one", name).
			WithRemedy("Choose one: `palyra skills list` has the versions, `palyra skills enable %s@VERSION` makes one current.", name)
	}
	return Installed{}, missing(name, "")
}

func missing(name, version string) error {
	what := "skill " + name
	if version != "" {
		what = "version " + version + " of the " + what
	}
	return reason.Errorf(reason.NotFound, "there is no %s", what).WithRemedy("`palyra skills list` has what is installed.")
}

// Publishers returns all whose key is pinned, and those that are distrusted, by name.
func (r *Registry) Publishers() []Publisher {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := make([]Publisher, 0, len(r.publishers))
	for _, p := range r.publishers {
		list = append(list, p)
	}
	slices.SortFunc(list, func(a, b Publisher) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Notices are sentences about what was changed behind palyrad's back.
func (r *Registry) Notices() []string {
	var list []string
	say := func(problem error) {
		if problem != nil {
			known := reason.Known(problem, reason.VerificationFailed)
			list = append(list, known.Message+"; "+known.NextStep())
		}
	}
	for _, p := range r.Publishers() {
		say(p.Problem)
	}
	for _, i := range r.List() {
		say(i.Problem)
	}
	return list
}

// Active returns the skills whose current version may run, by name.
func (r *Registry) Active() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	list := []string{}
	for _, i := range r.versions {
		if i.runs() && r.pinned(i) == nil {
			list = append(list, i.Skill)
		}
	}
	slices.Sort(list)
	return list
}

// pinned says what keeps the key of a version from being its publisher's. The caller holds
// r.mu.
func (r *Registry) pinned(i Installed) error {
	p, there := r.publishers[i.Publisher]
	switch {
	case !there:
		return reason.Errorf(reason.VerificationFailed, "no key of the publisher %s is pinned", i.Publisher).
			WithRemedy("Name its key with `palyra skills trust add`.")
	case p.Problem != nil:
		return p.Problem
	case p.Distrusted:
		return reason.Errorf(reason.VerificationFailed, "the publisher %s is distrusted, since %s", p.Name, p.At.Format(time.RFC3339)).
			WithRemedy("Name a key of it with `palyra skills trust add` if it is to be trusted again.")
	case p.KeyID != i.KeyID:
		return reason.Errorf(reason.VerificationFailed, "the publisher %s signs with the key %s, and %s was signed with %s", p.Name, p.KeyID, i.Name(), i.KeyID).
			WithRemedy("Get a package that is signed with the publisher's key. If the key was changed, ask the publisher over another way; then `palyra skills trust remove %[1]s` and `palyra skills trust add`.", p.Name)
	}
	return nil
}

// keep makes a change durable, and then what everybody sees. The caller holds r.changing.
func (r *Registry) keep(ctx context.Context, c Change) error {
	if err := r.c.Store.ChangeSkills(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, i := range c.Put {
		r.versions[i.Name()] = i
	}
	for _, i := range c.Drop {
		delete(r.versions, i.Name())
	}
	for _, p := range c.Publishers {
		r.publishers[p.Name] = p
	}
	return nil
}

// tell tells of a change that was kept. Where that fails the change holds all the same:
// what may not run is refused by Load.
func (r *Registry) tell(ctx context.Context) error {
	if r.c.Changed == nil {
		return nil
	}
	return r.c.Changed(context.WithoutCancel(ctx))
}

// ofSkill are the versions of a skill.
func (r *Registry) ofSkill(name string) []Installed {
	return slices.DeleteFunc(r.List(), func(i Installed) bool { return i.Skill != name })
}

// draft makes an event of a change that somebody caused.
func draft(ctx context.Context, code event.Code, by access.Caller, subject string, payload any) (event.Draft, error) {
	d, err := event.DraftOf(code, by.Principal.String(), subject, payload)
	if err != nil {
		return d, err
	}
	return d.By(access.DeviceOf(ctx))
}
