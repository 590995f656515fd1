package upstream

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/exec/upstream/declared"
)

// kept is the stored record of a server with its current state.
type kept struct {
	declared.Kept

	digest string
	// changes wait for approval.
	changes []declared.Change
	// stale reports that the server announced changes since its last inspection.
	stale bool
	// stray is a log line that its program wrote among its messages, "" for none.
	stray string
	// problem is the reason why the last use failed, nil if it succeeded.
	problem *reason.Error
}

// catalog holds the declared servers. Pool.mu may be locked while catalog.mu is held, never the
// reverse.
type catalog struct {
	store Store
	log   *slog.Logger

	// keeping makes reading and writing the stored record of a server atomic.
	keeping sync.Mutex

	mu      sync.Mutex
	servers map[string]*kept
}

// find returns the current record of a server.
func (ct *catalog) find(name string) (kept, error) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	k, ok := ct.servers[name]
	if !ok {
		return kept{}, reason.Errorf(reason.NotFound, "the upstream server %q does not exist", name).WithRemedy("List the servers with `palyra mcp list`.")
	}
	return *k, nil
}

// offers reports whether a server has a tool of that name.
func (ct *catalog) offers(server, name string) bool {
	k, err := ct.find(server)
	return err == nil && slices.ContainsFunc(slices.Concat(k.Approved.Definitions, k.Seen.Definitions), func(d declared.Definition) bool { return d.Kind == declared.KindTool && d.Name == name })
}

// put adds or replaces a server.
func (ct *catalog) put(k *kept) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	ct.servers[k.Server.Name] = k
}

// remove removes a server.
func (ct *catalog) remove(name string) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	delete(ct.servers, name)
}

// room returns an error if a server of this name cannot be added.
func (ct *catalog) room(name string) error {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if _, there := ct.servers[name]; there {
		return reason.Errorf(reason.AlreadyExists, "the upstream server %s already exists", name).
			WithRemedy("Choose another name, or remove the server first with `palyra mcp remove %s`.", name)
	}
	if len(ct.servers) >= mostServers {
		return reason.Errorf(reason.QuotaExceeded, "the limit of %d upstream servers is reached", mostServers).WithRemedy("Remove a server that is not in use.")
	}
	return nil
}

func (ct *catalog) noted(name string, note func(*kept)) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if k := ct.servers[name]; k != nil {
		note(k)
	}
}

// lookAgain records that a server announced changes. The next call inspects it before it runs.
func (ct *catalog) lookAgain(name string) {
	ct.mu.Lock()
	defer ct.mu.Unlock()
	if k := ct.servers[name]; k != nil {
		k.stale = true
	}
}

// saw compares the definitions of a server with the approved ones and stores them. The first
// definitions of a server are approved implicitly.
func (ct *catalog) saw(ctx context.Context, name string, seen declared.Sight, actor string) error {
	ct.keeping.Lock()
	defer ct.keeping.Unlock()
	k, err := ct.find(name)
	if err != nil {
		return err
	}
	now, first := k.Kept, k.SeenAt.IsZero()
	now.Seen, now.SeenAt = seen, time.Now().UTC()
	if first {
		now.Approved, now.ApprovedBy, now.ApprovedAt = seen, actor, now.SeenAt
	}
	if !first && slices.Equal(k.Seen.Unchecked, seen.Unchecked) && slices.EqualFunc(k.Seen.Definitions, seen.Definitions, func(a, b declared.Definition) bool { return a.Key() == b.Key() && a.Digest == b.Digest }) {
		ct.noted(name, func(k *kept) { k.stale = false })
		return nil
	}
	draft, err := event.DraftOf(event.UpstreamSeen, actor, name, sighted{
		Server: name, First: first, Changes: notesOf(declared.Differences(k.Seen.Definitions, seen.Definitions)), LeftOut: seen.LeftOut, Unchecked: seen.Unchecked,
	})
	if err != nil {
		return err
	}
	if err := ct.store.PutUpstream(context.WithoutCancel(ctx), now, draft); err != nil {
		return err
	}
	ct.noted(name, func(k *kept) { k.Kept, k.changes, k.stale = now, now.Pending(), false })
	if changes := now.Pending(); len(changes) > 0 {
		ct.log.WarnContext(ctx, "an upstream server changed its definitions: the affected tools are suspended until `palyra mcp approve`",
			slog.String("upstream", name))
	}
	return nil
}

// examine fetches and stores the definitions of a server.
func (ct *catalog) examine(ctx context.Context, in *instance, actor string) error {
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if in.process != nil {
		in.process.pipe.begin()
	}
	seen, err := look(looking, in.session, in.server.Meta)
	if err != nil {
		return err
	}
	if err := ct.saw(ctx, in.server.Name, seen, actor); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.seen = !seen.Incomplete // the next call inspects the rest
	return nil
}
