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
	"sync"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
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

// Registry manages the installed skills: the installed versions are its Inventory, and uploaded
// packages wait in its Staging.
type Registry struct {
	*Inventory
	*Staging
	c        Config
	packages packages
	damages  *damages
	now      func() time.Time

	// changing is held during a change, so that the checked state is the changed state.
	changing sync.Mutex
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
	now := func() time.Time { return c.Now().UTC().Truncate(time.Microsecond) }
	r := &Registry{
		Staging: newStaging(c.Dir, now), c: c, packages: packages{files: files{dir: c.Dir}, cache: new(cache)},
		damages: &damages{store: c.Store, log: c.Log, reported: map[string]bool{}}, now: now, reached: func(string) {},
	}
	kept, err := c.Store.Skills(ctx)
	if err != nil {
		return nil, err
	}
	if r.Inventory, err = (rowCheck{c.Store, r.packages, r.damages}).inventory(ctx, kept); err != nil {
		return nil, err
	}
	return r, r.packages.files.sweep(kept.digests())
}

// keep stores a change durably, and then updates the state in memory. The caller holds
// r.changing.
func (r *Registry) keep(ctx context.Context, c Change) error {
	if err := r.c.Store.ChangeSkills(context.WithoutCancel(ctx), c); err != nil {
		return err
	}
	r.apply(c)
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

// draft returns an event for a change.
func draft(ctx context.Context, code event.Code, by access.Caller, subject string, payload any) (event.Draft, error) {
	d, err := event.DraftOf(code, by.Principal.String(), subject, payload)
	if err != nil {
		return d, err
	}
	return d.By(access.DeviceOf(ctx))
}
