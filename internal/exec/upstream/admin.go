package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/upstream/declared"
)

// List returns all servers by name.
func (m *Manager) List() []declared.State {
	m.mu.Lock()
	defer m.mu.Unlock()
	var states []declared.State
	for name, k := range m.servers {
		states = append(states, m.state(name, k))
	}
	slices.SortFunc(states, func(a, b declared.State) int { return strings.Compare(a.Server.Name, b.Server.Name) })
	return states
}

// state puts together what is known. The caller holds m.mu.
func (m *Manager) state(name string, k *kept) declared.State {
	s := declared.State{Kept: k.Kept, Digest: k.digest, Changes: k.changes}
	if k.problem != nil {
		s.Problem, s.Remedy = k.problem.Message, k.problem.NextStep()
		if len(k.Approved.Definitions) == 0 && k.problem.Remedy == "" && slices.Contains([]reason.Code{reason.UpstreamUnavailable, reason.SpawnFailed}, k.problem.Code) {
			// It has no tools, so that no call will try it again.
			s.Remedy = "Mend what the message names, then `palyra mcp refresh " + name + "`."
		}
	}
	if k.stray != "" {
		s.Seen.LeftOut = append(slices.Clip(s.Seen.LeftOut), namedStray(k.stray)+" and was left out: have the server write its log to standard error")
	}
	for _, d := range k.Approved.Definitions {
		if why := m.use.Router.Suspended(name + "/" + d.Name); why != nil && d.Kind == declared.KindTool && s.Problem == "" {
			s.Problem, s.Remedy = why.Message, why.NextStep()
		}
	}
	for key, slot := range m.slots {
		if in := slot.current.Load(); key.server == name && in != nil {
			in.mu.Lock()
			if !in.over {
				s.Instances++
				s.Calls += in.active
			}
			in.mu.Unlock()
		}
	}
	return s
}

// Show returns one server.
func (m *Manager) Show(name string) (declared.State, error) {
	if _, err := m.find(name); err != nil {
		return declared.State{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state(name, m.servers[name]), nil
}

// Check refuses a server that cannot be added, and returns it with what is known of its
// package.
func (m *Manager) Check(s declared.Server) (declared.Server, error) {
	if err := s.Check(); err != nil {
		return s, err
	}
	if err := m.complete(&s, s.Name); err != nil {
		return s, err
	}
	if s.Workspace != "" {
		root, err := m.use.Workspaces.Open(s.Workspace)
		if err != nil {
			return s, err
		}
		root.Close()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.servers[s.Name]; there {
		return s, reason.Errorf(reason.AlreadyExists, "there is an upstream server %s already", s.Name).
			WithRemedy("Take another name, or remove it first with `palyra mcp remove %s`.", s.Name)
	}
	if len(m.servers) >= mostServers {
		return s, reason.Errorf(reason.QuotaExceeded, "there are %d upstream servers, which is the most", mostServers).WithRemedy("Remove one that nobody uses.")
	}
	return s, nil
}

// complete fills in what was installed under the prefix that a declaration names: whoever
// declares it does not say what that is.
func (m *Manager) complete(s *declared.Server, server string) error {
	if s.Package == nil {
		return nil
	}
	if m.use.Prefixes == nil {
		return reason.Errorf(reason.NotFound, "this gateway installs no packages for upstream servers")
	}
	p, err := m.use.Prefixes.Find(server, s.Package.Prefix)
	s.Package = &p
	return err
}

// Add declares a server and reaches it for the first time: what it says of itself then
// is approved by that. One that cannot be reached is added all the same, and has no
// tools until `palyra mcp refresh`.
func (m *Manager) Add(ctx context.Context, by access.Caller, s declared.Server) (declared.State, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	s, err := m.Check(s)
	if err != nil {
		return declared.State{}, err
	}
	digest, err := s.Digest()
	if err != nil {
		return declared.State{}, err
	}
	one := &kept{Kept: declared.Kept{Server: s, AddedBy: by.Principal.String(), AddedAt: time.Now().UTC()}, digest: digest}
	draft, err := drafted(ctx, event.UpstreamAdded, by, s.Name, added{s, digest})
	if err != nil {
		return declared.State{}, err
	}
	if err := m.use.Store.PutUpstream(context.WithoutCancel(ctx), one.Kept, draft); err != nil {
		return declared.State{}, err
	}
	m.mu.Lock()
	m.servers[s.Name] = one
	m.mu.Unlock()
	if len(s.Inject) > 0 { // it is started by a call
		if err := m.rebuild(ctx, by, s.Name); err != nil {
			return declared.State{}, err
		}
	}
	if err := m.reach(ctx, by, s); err != nil {
		m.noted(s.Name, func(k *kept) { k.problem = reason.Known(err, reason.UpstreamUnavailable) })
	}
	return m.Show(s.Name)
}

func drafted(ctx context.Context, code event.Code, by access.Caller, subject string, payload any) (event.Draft, error) {
	draft, err := event.DraftOf(code, by.Principal.String(), subject, payload)
	if err != nil {
		return draft, err
	}
	return draft.By(access.DeviceOf(ctx))
}

// Refresh reaches a server anew and compares what it says with what was approved.
func (m *Manager) Refresh(ctx context.Context, by access.Caller, name string) (declared.State, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	k, err := m.find(name)
	if err != nil {
		return declared.State{}, err
	}
	if err := m.reach(ctx, by, k.Server); err != nil {
		known := reason.Known(err, reason.UpstreamUnavailable)
		m.noted(name, func(k *kept) { k.problem = known })
		return declared.State{}, known
	}
	return m.Show(name)
}

// reach looks at a server in an instance of its own, for the person who asks. The
// caller holds m.changing.
func (m *Manager) reach(ctx context.Context, by access.Caller, s declared.Server) error {
	if !s.Remote() {
		if err := m.Runs(); err != nil {
			return err
		}
	}
	digest, err := s.Digest()
	if err != nil {
		return err
	}
	p := tool.Proposal{ID: ulid.Make().String(), Caller: by}
	l, err := m.launchFor(ctx, s, digest, p)
	if err != nil {
		return err
	}
	lent, end, err := m.lend(ctx, tool.Call{Proposal: p}, &l, 0)
	defer end()
	if err != nil {
		return err
	}
	in, leave, err := m.visit(ctx, l, lent)
	if err != nil {
		return err
	}
	defer leave()
	defer in.till.open(lent)()
	if err := m.examine(ctx, in, by.Principal.String()); err != nil {
		return in.unavailable(err)
	}
	m.noted(s.Name, func(k *kept) { k.problem = nil })
	m.forgive(s.Name)
	return m.rebuild(ctx, by, s.Name)
}

// visit starts an instance that is looked at and ended. One that gets secrets runs
// already, for the same person.
func (m *Manager) visit(ctx context.Context, l launch, lent []egress.Secret) (in *instance, leave func(), err error) {
	if len(l.injections) == 0 {
		if in, err = m.start(ctx, l, lent); err != nil {
			return nil, nil, err
		}
		return in, func() { in.close(errIdle); in.discard() }, nil
	}
	in, leave, err = m.enterBy(ctx, l, func(s *slot) (*instance, error) { return m.fill(ctx, s, l, lent) })
	if errors.Is(err, errUnstarted) {
		err = unstarted(l.server.Name)
	}
	return in, leave, err
}

// rebuild gives the router the tools as they are approved now, and has the policies
// made anew.
func (m *Manager) rebuild(ctx context.Context, by access.Caller, name string) error {
	k, err := m.find(name)
	if err != nil {
		return err
	}
	if err := m.setTools(k.Server, k.Approved); err != nil {
		return reason.Errorf(reason.UpstreamUnavailable, "the tools of the upstream server %s cannot be offered: %w", name, err)
	}
	if err := m.use.Policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String()); err != nil {
		return fmt.Errorf("making the policies anew with the tools of the upstream server %s: %w", name, err)
	}
	return nil
}

// Approve accepts what a server says of itself now. digest is SightDigest of what the
// person saw: if the server said something else meanwhile, nothing is approved.
func (m *Manager) Approve(ctx context.Context, by access.Caller, name, digest string) (declared.State, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.keeping.Lock()
	defer m.keeping.Unlock()
	k, err := m.find(name)
	if err != nil {
		return declared.State{}, err
	}
	if len(k.changes) == 0 {
		return declared.State{}, reason.Errorf(reason.NotFound, "nothing of the upstream server %s waits to be approved", name).
			WithRemedy("`palyra mcp refresh %s` looks whether it says something else by now.", name)
	}
	if now := k.Seen.Digest(); digest != now {
		return declared.State{}, reason.Errorf(reason.DigestMismatch, "the upstream server %s says something else by now than what you saw", name).
			WithRemedy("Look at the difference again with `palyra mcp show %s`.", name).WithField("digest", now)
	}
	was := k.Kept
	now := k.Kept
	now.Approved, now.ApprovedBy, now.ApprovedAt = k.Seen, by.Principal.String(), time.Now().UTC()
	draft, err := drafted(ctx, event.UpstreamApproved, by, name, sighted{Server: name, Changes: notesOf(k.changes)})
	if err != nil {
		return declared.State{}, err
	}
	// The policies have to take the new definitions before they count.
	m.noted(name, func(k *kept) { k.Kept = now })
	if err := m.rebuild(ctx, by, name); err != nil {
		m.noted(name, func(k *kept) { k.Kept = was })
		return declared.State{}, m.undo(ctx, by, was, err)
	}
	if err := m.use.Store.PutUpstream(context.WithoutCancel(ctx), now, draft); err != nil {
		m.noted(name, func(k *kept) { k.Kept = was })
		return declared.State{}, m.undo(ctx, by, was, err)
	}
	m.noted(name, func(k *kept) { k.changes = now.Pending() })
	return m.Show(name)
}

// undo sets the tools again as they were, and returns why.
func (m *Manager) undo(ctx context.Context, by access.Caller, was declared.Kept, why error) error {
	if err := m.setTools(was.Server, was.Approved); err == nil {
		_ = m.use.Policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String()) // what was in force loads
	}
	return why
}

// Remove takes a server and its tools away. Policies that name one keep it.
func (m *Manager) Remove(ctx context.Context, by access.Caller, name string) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	k, err := m.find(name)
	if err != nil {
		return err
	}
	draft, err := drafted(ctx, event.UpstreamRemoved, by, name, added{k.Server, k.digest})
	if err != nil {
		return err
	}
	if err := m.use.Router.SetTools(source(name), nil); err != nil {
		return err
	}
	err = m.use.Policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String())
	if err == nil {
		err = m.use.Store.DeleteUpstream(context.WithoutCancel(ctx), name, draft)
	}
	if err != nil {
		return m.undo(ctx, by, k.Kept, err)
	}
	m.mu.Lock()
	delete(m.servers, name)
	m.mu.Unlock()
	if err := m.drop(ctx, name); err != nil {
		return err
	}
	return errors.Join(m.tidy(name), m.removeState(name))
}

// tidy removes what is installed for a server and not used. The caller has ended the
// instances that used it.
func (m *Manager) tidy(name string, kept ...string) error {
	if m.use.Prefixes == nil {
		return nil
	}
	return m.use.Prefixes.Keep(name, kept...)
}

// Updated is a server as Update would declare it.
func (m *Manager) Updated(name, prefix string) (declared.Server, error) {
	k, err := m.find(name)
	if err != nil {
		return declared.Server{}, err
	}
	s := k.Server
	if s.Package == nil {
		return s, reason.Errorf(reason.InvalidInput, "the upstream server %s is no package that was installed", name).
			WithRemedy("Update %s where it is installed, and then `palyra mcp refresh %s`.", s.Where(), name)
	}
	s.Package = &declared.Package{Prefix: prefix}
	if err := s.Check(); err != nil {
		return s, err
	}
	was, now := k.Server.Package, s
	if err := m.complete(&now, name); err != nil {
		return s, err
	}
	if was.Ecosystem != now.Package.Ecosystem || was.Name != now.Package.Name {
		return s, reason.Errorf(reason.InvalidInput, "the upstream server %s is of the package %s, and %s was installed", name, was.Name, now.Package.Name).
			WithRemedy("Remove the server and add the other one.")
	}
	return now, nil
}

// Update has the program of a server come from what is installed as prefix. Calls that
// are under way go on with what it came from before; if nothing else uses that, it is
// removed. Definitions that differ wait to be approved, as always.
func (m *Manager) Update(ctx context.Context, by access.Caller, name, prefix string) (declared.State, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	s, err := m.Updated(name, prefix)
	if err != nil {
		return declared.State{}, err
	}
	if err := m.redeclare(ctx, by, s); err != nil {
		return declared.State{}, err
	}
	if err := m.rebuild(ctx, by, name); err != nil {
		return declared.State{}, err
	}
	if err := m.drop(ctx, name); err != nil {
		return declared.State{}, err
	}
	if err := m.tidy(name, prefix); err != nil {
		return declared.State{}, err
	}
	if err := m.reach(ctx, by, s); err != nil {
		m.noted(name, func(k *kept) { k.problem = reason.Known(err, reason.UpstreamUnavailable) })
	}
	return m.Show(name)
}

// redeclare keeps a server as it is declared now, with all that was approved of it.
func (m *Manager) redeclare(ctx context.Context, by access.Caller, s declared.Server) error {
	m.keeping.Lock()
	defer m.keeping.Unlock()
	k, err := m.find(s.Name)
	if err != nil {
		return err
	}
	digest, err := s.Digest()
	if err != nil {
		return err
	}
	draft, err := drafted(ctx, event.UpstreamAdded, by, s.Name, added{s, digest})
	if err != nil {
		return err
	}
	now := k.Kept
	now.Server = s
	if err := m.use.Store.PutUpstream(context.WithoutCancel(ctx), now, draft); err != nil {
		return err
	}
	m.noted(s.Name, func(k *kept) { k.Kept, k.digest = now, digest })
	return nil
}
