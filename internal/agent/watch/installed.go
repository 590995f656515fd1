// Package watch monitors the entries that were written into the settings of agents. It reads
// the files, and reports when an entry differs from the installed one.
//
// A user who can write the settings can remove the hook, and an agent runs as that user. This
// package cannot prevent it, but reports it. It compares values and not files, because agents
// rewrite their files continuously.
package watch

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"palyra/internal/agent/files"
	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
)

// State is the state of an entry.
type State string

// The states.
const (
	Intact State = "intact"
	// Changed means that the value is different or missing.
	Changed State = "changed"
	// Missing means that the file does not exist.
	Missing State = "missing"
	// Unreadable means that palyrad cannot read or parse the file.
	Unreadable State = "unreadable"
)

// Entry is one value in a file.
type Entry struct {
	Path   string       `json:"path"`
	Format files.Format `json:"format"`
	// Keys are the path to the value or, with InList, to its list.
	Keys   []string `json:"keys"`
	InList bool     `json:"in_list,omitempty"`
	// Digest is the digest of the value in canonical JSON.
	Digest string `json:"digest"`
	State  State  `json:"state"`
	// ChangedAt is the time since which it has not been intact.
	ChangedAt time.Time `json:"changed_at,omitzero"`
}

// Name returns the entry for display.
func (e Entry) Name() string { return e.Path + " (" + strings.Join(e.Keys, ".") + ")" }

// Installation contains the entries of one installation.
type Installation struct {
	ID, Agent, Scope, Transport string
	Entries                     []Entry
	By                          access.Principal
	At                          time.Time
}

// Store stores installations. Each change is durable with its event.
type Store interface {
	Installations(ctx context.Context) ([]Installation, error)
	PutInstallation(ctx context.Context, i Installation, e event.Draft) error
	DropInstallation(ctx context.Context, id string, e event.Draft) error
}

// mostInstallations bounds the monitored installations.
const mostInstallations = 200

// Watcher monitors the installations.
type Watcher struct {
	store Store
	log   *slog.Logger
	now   func() time.Time
	// again wakes Run when there is another file to monitor.
	again chan struct{}

	// acting is held during a check and its journaling.
	acting sync.Mutex
	mu     sync.Mutex
	list   []Installation
}

// New loads the installations.
func New(ctx context.Context, store Store, log *slog.Logger, now func() time.Time) (*Watcher, error) {
	list, err := store.Installations(ctx)
	if err != nil {
		return nil, err
	}
	return &Watcher{store: store, log: log, now: now, again: make(chan struct{}, 1), list: list}, nil
}

// payload is the payload of installation events.
type payload struct {
	ID        string           `json:"installation_id"`
	Agent     string           `json:"agent"`
	Scope     string           `json:"scope"`
	Transport string           `json:"transport,omitempty"`
	Principal access.Principal `json:"principal,omitzero"`
	Entries   []entryPayload   `json:"entries,omitempty"`
}

type entryPayload struct {
	Path   string   `json:"path"`
	Keys   []string `json:"keys"`
	Digest string   `json:"digest"`
	State  State    `json:"state"`
	Was    State    `json:"was,omitempty"`
}

func (i Installation) draft(code event.Code, by access.Principal, entries []entryPayload) (event.Draft, error) {
	actor := by.String()
	if by.IsZero() {
		actor = "service:palyrad"
	}
	return event.DraftOf(code, actor, i.ID, payload{ID: i.ID, Agent: i.Agent, Scope: i.Scope, Transport: i.Transport, Principal: by, Entries: entries})
}

// Register starts monitoring an installation.
func (w *Watcher) Register(ctx context.Context, i Installation) (Installation, error) {
	for _, e := range i.Entries {
		if !files.Watchable(e.Path) {
			return i, reason.Errorf(reason.InvalidInput, "%q is not a settings file of a supported agent", e.Path).
				WithRemedy("Specify the absolute path of the file, without links.")
		}
	}
	w.acting.Lock()
	defer w.acting.Unlock()
	all := w.all()
	at := slices.IndexFunc(all, func(o Installation) bool { return o.ID == i.ID })
	if at < 0 && len(all) >= mostInstallations {
		return i, reason.Errorf(reason.RateLimited, "the limit of %d monitored installations is reached", len(all)).WithRemedy("Remove some with `palyra hook uninstall`.")
	}
	i.At = w.now().UTC()
	entries := make([]entryPayload, len(i.Entries))
	for n, e := range i.Entries {
		e.State, e.ChangedAt = Look(e), time.Time{}
		if e.State != Intact {
			e.ChangedAt = i.At
		}
		i.Entries[n], entries[n] = e, entryPayload{Path: e.Path, Keys: e.Keys, Digest: e.Digest, State: e.State}
	}
	draft, err := i.draft(event.HookInstalled, i.By, entries)
	if err == nil {
		err = w.store.PutInstallation(ctx, i, draft)
	}
	if err != nil {
		return i, err
	}
	w.mu.Lock()
	if w.list = all; at < 0 {
		w.list = append(w.list, i)
	} else {
		w.list[at] = i
	}
	w.mu.Unlock()
	select {
	case w.again <- struct{}{}:
	default:
	}
	return i, nil
}

// Remove ends the monitoring of an installation, and reports whether it existed.
func (w *Watcher) Remove(ctx context.Context, by access.Principal, id string) (bool, error) {
	w.acting.Lock()
	defer w.acting.Unlock()
	all := w.all()
	at := slices.IndexFunc(all, func(o Installation) bool { return o.ID == id })
	if at < 0 {
		return false, nil
	}
	draft, err := all[at].draft(event.HookUninstalled, by, nil)
	if err == nil {
		err = w.store.DropInstallation(ctx, id, draft)
	}
	if err != nil {
		return false, err
	}
	w.mu.Lock()
	w.list = slices.Delete(all, at, at+1)
	w.mu.Unlock()
	return true, nil
}

// all returns a copy of the list.
func (w *Watcher) all() []Installation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// List checks the files and returns all installations by their ids.
func (w *Watcher) List(ctx context.Context) ([]Installation, error) {
	err := w.look(ctx)
	list := w.all()
	slices.SortFunc(list, func(a, b Installation) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

// look checks all entries, and journals the changed ones.
func (w *Watcher) look(ctx context.Context) error {
	w.acting.Lock()
	defer w.acting.Unlock()
	for n, i := range w.all() {
		i.Entries = slices.Clone(i.Entries)
		var changes []entryPayload
		for k, e := range i.Entries {
			now := Look(e)
			if now == e.State {
				continue
			}
			changes = append(changes, entryPayload{Path: e.Path, Keys: e.Keys, Digest: e.Digest, State: now, Was: e.State})
			e.State, e.ChangedAt = now, w.now().UTC()
			if now == Intact {
				e.ChangedAt = time.Time{}
			}
			i.Entries[k] = e
		}
		if len(changes) == 0 {
			continue
		}
		draft, err := i.draft(event.HookChanged, access.Principal{}, changes)
		if err == nil {
			err = w.store.PutInstallation(ctx, i, draft)
		}
		if err != nil {
			return fmt.Errorf("recording changes of installed entries: %w", err)
		}
		w.mu.Lock()
		w.list[n] = i
		w.mu.Unlock()
		for _, c := range changes {
			w.tell(ctx, i, c)
		}
	}
	return nil
}

// tell logs a change.
func (w *Watcher) tell(ctx context.Context, i Installation, c entryPayload) {
	attrs := []any{slog.String("note", "hook of "+i.Agent+" in "+(Entry{Path: c.Path, Keys: c.Keys}).Name()), slog.String("state", string(c.State))}
	if c.State == Intact {
		w.log.InfoContext(ctx, "an installed hook was restored", attrs...)
		return
	}
	w.log.WarnContext(ctx, "an installed hook was changed: the agent may bypass the gateway", attrs...)
}

// Notices returns notices about entries that are not intact.
func (w *Watcher) Notices() []string {
	var list []string
	for _, i := range w.all() {
		for _, e := range i.Entries {
			if e.State == Intact {
				continue
			}
			list = append(list, fmt.Sprintf("the hook of %s in %s is %s since %s: its tools may run without a decision; see `palyra hook status %[1]s`, and repair it with `palyra hook install %[1]s`",
				i.Agent, e.Name(), e.State, e.ChangedAt.Format(time.RFC3339)))
		}
	}
	return list
}
