// Package policyadmin loads the operator's policies and puts them in force. It stores every
// version that was in force, pins the tool definitions that policies were written for, and
// finds the set that judged a past call. It makes no decisions.
package policyadmin

import (
	"context"
	"log/slog"

	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/provenance"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// Config is the configuration of an Admin.
type Config struct {
	// Settings are the operator's; policy.dir is the directory that is loaded.
	Settings *config.Config
	Store    Store
	// Guard permits changes that require two people; nil permits none of them.
	Guard change.Guard
	// Grants finds the grants that allowed calls.
	Grants  Grants
	Journal Journal
	Engine  *policy.Engine
	Members Members
	// Provenance returns the history of creations, changes and confirmations of members; nil
	// means an empty history.
	Provenance func() provenance.History
	Tools      Tools
	// Cut ends the open connections and calls of a principal that is excluded from now on; nil
	// does nothing.
	Cut func(access.Principal, *reason.Error)
	// TakesTwo reports whether a change of the set needs a second person's approval. Callers of
	// Activate, Reload and Enact have obtained it; a change of the directory has not. Nil means
	// that no approval is needed.
	TakesTwo func() bool
	// Swapped is called after another set has come into force.
	Swapped func()
	Log     *slog.Logger
}

// Journal writes the events of policies and reads the events of calls.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
	List(ctx context.Context, f journal.Filter) ([]journal.Event, error)
}

// Members are the members that policies refer to.
type Members interface {
	List() []access.Member
	Roles() []access.Role
	// Subscribe registers changed, which is called after each change until stop is called.
	Subscribe(changed func()) (stop func())
}

// Tools are the callable tools.
type Tools interface {
	Descriptors() []tool.Descriptor
	// Suspend refuses calls of exactly these tools.
	Suspend(map[string]*reason.Error)
}

// Admin are the parts that load policy sets and put them in force.
type Admin struct {
	Active    *Active
	Pins      *Pins
	Ceilings  *CeilingAdmin
	Loader    *Loader
	Watcher   *Watcher
	History   *History
	Proposals *Proposals
	Drafts    *Drafts
	Past      *PastCalls
}

// New returns an Admin without a set in force.
func New(c Config) *Admin {
	pins := &Pins{store: c.Store, tools: c.Tools, log: c.Log}
	active := &Active{
		engine: c.Engine, settings: c.Settings, members: c.Members, provenance: c.Provenance, pins: pins,
		store: c.Store, journal: c.Journal, swapped: c.Swapped, log: c.Log,
	}
	ceilings := &CeilingAdmin{active: active, settings: c.Settings, store: c.Store, members: c.Members, guard: c.Guard, cut: c.Cut}
	loader := &Loader{active: active, ceilings: ceilings, settings: c.Settings, guard: c.Guard, needsTwo: c.TakesTwo}
	history := &History{active: active, guard: c.Guard}
	watcher := &Watcher{active: active, loader: loader, log: c.Log, changed: make(chan struct{}, 1)}
	c.Members.Subscribe(func() {
		select {
		case watcher.changed <- struct{}{}:
		default:
		}
	})
	return &Admin{
		Active: active, Pins: pins, Ceilings: ceilings, Loader: loader, Watcher: watcher, History: history,
		Proposals: &Proposals{active: active, loader: loader, history: history, guard: c.Guard},
		Drafts:    &Drafts{active: active, tools: c.Tools},
		Past:      &PastCalls{engine: c.Engine, store: c.Store, journal: c.Journal, grants: c.Grants},
	}
}
