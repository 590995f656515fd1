// Package registry manages the installed skills, their signers and their status. It stores the
// packages as files and their records in a store. It runs no skills.
//
// Each version of a skill is a package that never changes. One version of a skill is the current
// one and provides the skill's tools. At start the rows of the store are compared with the
// journal. On every load the package file is compared with its digest, its signature and the
// pinned key of its publisher.
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
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/wasm/guest"
)

// Status determines whether a version may run.
type Status string

// The statuses. A version with any other value does not run.
const (
	Active Status = "active"
	// Quarantined marks a version as suspicious: it is kept for inspection.
	Quarantined Status = "quarantined"
	// Disabled marks a version as not in use.
	Disabled Status = "disabled"
)

// Statuses lists all statuses.
var Statuses = []Status{Active, Quarantined, Disabled}

// Installed is one version of a skill.
type Installed struct {
	Skill, Version string
	// Publisher signed the version with the key KeyID, an OpenSSH fingerprint.
	Publisher, KeyID string
	// Digest is "sha256:" and the digest of the package's file.
	Digest string
	Status Status
	// Why is the reason given for the last change of the status, "" for none.
	Why string
	// Manifest is the manifest of the package. It has no tools if Problem is not nil.
	Manifest    *skill.Manifest
	InstalledBy access.Principal
	InstalledAt time.Time
	// ChangedBy is the principal that last changed the status or made it the current version.
	ChangedBy access.Principal
	ChangedAt time.Time
	// Current marks the version that provides the skill's tools: at most one version of a skill.
	Current bool
	// Problem is the reason why it does not run regardless of its status: its file or its row was
	// tampered with.
	Problem error
}

// Name returns the display name of the version, such as notes@1.2.0.
func (i Installed) Name() string { return i.Skill + "@" + i.Version }

// runs reports whether its tools can be called.
func (i Installed) runs() bool { return i.Current && i.Status == Active && i.Problem == nil }

// Publisher is a publisher with its only valid key.
type Publisher struct {
	Name string
	// KeyID is the OpenSSH fingerprint of PublicKey.
	KeyID     string
	PublicKey ed25519.PublicKey
	// FirstUse reports that the key was pinned by the first installation of the publisher's
	// skills, and was not confirmed since.
	FirstUse bool
	// Distrusted reports that skills of the publisher cannot run or be installed until a key of
	// it is trusted again.
	Distrusted bool
	By         access.Principal
	At         time.Time
	// Problem is the reason why the key is ignored: the row was tampered with.
	Problem error
}

// Storage limits.
const (
	mostVersions   = 200
	mostOfOneSkill = 20
	mostPublishers = 200
	// mostBytes is the maximum total size of the packages.
	mostBytes = 1 << 30
)

// Config configures a Registry.
type Config struct {
	Store Store
	// Guard permits changes that require two people; nil permits none of them.
	Guard change.Guard
	// Dir is the directory of the packages. Only palyrad writes to it.
	Dir string
	// Limits are the requirements for packages.
	Limits skill.Limits
	// Compile compiles a module before its installation; nil disables this.
	Compile func(context.Context, guest.Module) error
	// Changed is called after each change of the runnable versions; it may be nil.
	Changed func(context.Context) error
	Log     *slog.Logger
	// Now is the clock; nil selects time.Now.
	Now func() time.Time
}

// Registry manages the installed skills.
type Registry struct {
	c     Config
	files files
	cache cache
	stage staging

	// changing is held during a change, so that the checked state is the changed state.
	changing sync.Mutex
	// mu guards the following fields.
	mu         sync.RWMutex
	versions   map[string]Installed // by Name
	publishers map[string]Publisher
	// reported holds the damages that the journal already has.
	reported map[string]bool
	// reached is called at the steps of a change. Tests interrupt a change there.
	reached func(step string)
}

// New reads the installed skills. A tampered package or row gets a Problem and an event in the
// journal; it does not affect other skills.
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
		c: c, files: files{dir: c.Dir}, versions: map[string]Installed{}, publishers: map[string]Publisher{}, reported: map[string]bool{}, reached: func(string) {},
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

// now returns the time of a change.
func (r *Registry) now() time.Time { return r.c.Now().UTC().Truncate(time.Microsecond) }

// List returns all versions, by skill, newest first.
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
		return Installed{}, reason.Errorf(reason.NotFound, "the skill %s has no current version", name).
			WithRemedy("List the versions with `palyra skills list`, and choose one with `palyra skills enable %s@VERSION`.", name)
	}
	return Installed{}, missing(name, "")
}

func missing(name, version string) error {
	what := "skill " + name
	if version != "" {
		what = "version " + version + " of the " + what
	}
	return reason.Errorf(reason.NotFound, "%s does not exist", what).WithRemedy("List the installed skills with `palyra skills list`.")
}

// Publishers returns all publishers with a pinned key and all distrusted publishers, by name.
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

// Notices returns warnings about tampered skills and publishers.
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

// pinned returns an error if the key of a version is not its publisher's pinned key. The caller
// holds r.mu.
func (r *Registry) pinned(i Installed) error {
	p, there := r.publishers[i.Publisher]
	switch {
	case !there:
		return reason.Errorf(reason.VerificationFailed, "no key of the publisher %s is pinned", i.Publisher).
			WithRemedy("Pin its key with `palyra skills trust add`.")
	case p.Problem != nil:
		return p.Problem
	case p.Distrusted:
		return reason.Errorf(reason.VerificationFailed, "the publisher %s is distrusted since %s", p.Name, p.At.Format(time.RFC3339)).
			WithRemedy("To trust it again, pin its key with `palyra skills trust add`.")
	case p.KeyID != i.KeyID:
		return reason.Errorf(reason.VerificationFailed, "the publisher %s has the pinned key %s, but %s was signed with %s", p.Name, p.KeyID, i.Name(), i.KeyID).
			WithRemedy("Get a package that is signed with the publisher's key. If the publisher changed its key, verify that over a separate channel; then run `palyra skills trust remove %[1]s` and `palyra skills trust add`.", p.Name)
	}
	return nil
}

// keep stores a change durably, and then updates the state in memory. The caller holds
// r.changing.
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

// tell calls Changed after a change is stored. An error does not undo the change: Load refuses
// versions that must not run.
func (r *Registry) tell(ctx context.Context) error {
	if r.c.Changed == nil {
		return nil
	}
	return r.c.Changed(context.WithoutCancel(ctx))
}

// ofSkill returns the versions of a skill.
func (r *Registry) ofSkill(name string) []Installed {
	return slices.DeleteFunc(r.List(), func(i Installed) bool { return i.Skill != name })
}

// draft returns an event for a change.
func draft(ctx context.Context, code event.Code, by access.Caller, subject string, payload any) (event.Draft, error) {
	d, err := event.DraftOf(code, by.Principal.String(), subject, payload)
	if err != nil {
		return d, err
	}
	return d.By(access.DeviceOf(ctx))
}
