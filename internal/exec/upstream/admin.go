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
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream/declared"
)

// List returns the state of all servers, sorted by name.
func (m *Manager) List() []declared.State {
	m.catalog.mu.Lock()
	defer m.catalog.mu.Unlock()
	var states []declared.State
	for name, k := range m.catalog.servers {
		states = append(states, m.state(name, k))
	}
	slices.SortFunc(states, func(a, b declared.State) int { return strings.Compare(a.Server.Name, b.Server.Name) })
	return states
}

// state returns the current state of a server. The caller holds catalog.mu.
func (m *Manager) state(name string, k *kept) declared.State {
	s := declared.State{Kept: k.Kept, Digest: k.digest, Changes: k.changes}
	if k.problem != nil {
		s.Problem, s.Remedy = k.problem.Message, k.problem.NextStep()
		if len(k.Approved.Definitions) == 0 && k.problem.Remedy == "" && slices.Contains([]reason.Code{reason.UpstreamUnavailable, reason.SpawnFailed}, k.problem.Code) {
			// The server has no tools, so no later call would retry it.
			s.Remedy = "Fix the cause given in the message, then run `palyra mcp refresh " + name + "`."
		}
	}
	if k.stray != "" {
		s.Seen.LeftOut = append(slices.Clip(s.Seen.LeftOut), namedStray(k.stray)+" and was skipped: configure the server to write its log to standard error")
	}
	for _, d := range k.Approved.Definitions {
		if why := m.use.Router.Suspended(name + "/" + d.Name); why != nil && d.Kind == declared.KindTool && s.Problem == "" {
			s.Problem, s.Remedy = why.Message, why.NextStep()
		}
	}
	s.Instances, s.Calls = m.Pool.count(name)
	return s
}

// Show returns the state of one server.
func (m *Manager) Show(name string) (declared.State, error) {
	if _, err := m.catalog.find(name); err != nil {
		return declared.State{}, err
	}
	m.catalog.mu.Lock()
	defer m.catalog.mu.Unlock()
	return m.state(name, m.catalog.servers[name]), nil
}

// Check returns an error for a server that cannot be added. Otherwise it returns the declaration,
// completed with the details of its installed package.
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
	return s, m.catalog.room(s.Name)
}

// complete fills in the details of the package installed under the prefix of the declaration.
// These details come from the installation record, never from the declaration.
func (m *Manager) complete(s *declared.Server, server string) error {
	if s.Package == nil {
		return nil
	}
	if m.use.Prefixes == nil {
		return reason.Errorf(reason.NotFound, "this gateway cannot install packages for upstream servers")
	}
	p, err := m.use.Prefixes.Find(server, s.Package.Prefix)
	s.Package = &p
	return err
}

// Add declares a server and connects to it for the first time. The definitions of this first
// connection are approved implicitly. An unreachable server is added as well; it has no tools
// until `palyra mcp refresh` succeeds.
func (m *Manager) Add(ctx context.Context, by access.Caller, s declared.Server) (declared.State, error) {
	if err := m.use.Guard.Check(ctx, change.AddUpstream); err != nil {
		return declared.State{}, err
	}
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
	m.catalog.put(one)
	if len(s.Inject) > 0 { // the server is started by a call
		if err := m.rebuild(ctx, by, s.Name); err != nil {
			return declared.State{}, err
		}
	}
	if err := m.reach(ctx, by, s); err != nil {
		m.catalog.noted(s.Name, func(k *kept) { k.problem = reason.Known(err, reason.UpstreamUnavailable) })
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

// Refresh reconnects to a server and compares its definitions with the approved ones.
func (m *Manager) Refresh(ctx context.Context, by access.Caller, name string) (declared.State, error) {
	m.changing.Lock()
	defer m.changing.Unlock()
	k, err := m.catalog.find(name)
	if err != nil {
		return declared.State{}, err
	}
	if err := m.reach(ctx, by, k.Server); err != nil {
		known := reason.Known(err, reason.UpstreamUnavailable)
		m.catalog.noted(name, func(k *kept) { k.problem = known })
		return declared.State{}, known
	}
	return m.Show(name)
}

// reach inspects a server through a separate instance, on behalf of the requester. The caller
// holds m.changing.
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
	l, err := m.launcher.launchFor(ctx, s, digest, p)
	if err != nil {
		return err
	}
	lent, end, err := m.launcher.lend(ctx, tool.Call{Proposal: p}, &l, 0)
	defer end()
	if err != nil {
		return err
	}
	in, leave, err := m.Pool.withInstance(ctx, l, lent)
	if err != nil {
		return err
	}
	defer leave()
	defer in.till.open(lent)()
	if err := m.catalog.examine(ctx, in, by.Principal.String()); err != nil {
		return in.unavailable(err)
	}
	m.catalog.noted(s.Name, func(k *kept) { k.problem = nil })
	m.Pool.forgive(s.Name)
	return m.rebuild(ctx, by, s.Name)
}

// rebuild registers the approved tools with the router and rebuilds the policies.
func (m *Manager) rebuild(ctx context.Context, by access.Caller, name string) error {
	k, err := m.catalog.find(name)
	if err != nil {
		return err
	}
	if err := m.setTools(k.Server, k.Approved); err != nil {
		return reason.Errorf(reason.UpstreamUnavailable, "registering the tools of the upstream server %s: %w", name, err)
	}
	if err := m.use.Policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String()); err != nil {
		return fmt.Errorf("rebuilding the policies with the tools of the upstream server %s: %w", name, err)
	}
	return nil
}

// Approve accepts the definitions that a server currently reports. digest is the SightDigest of
// the definitions that the approver reviewed; if the server reports other definitions by then,
// Approve fails and changes nothing.
func (m *Manager) Approve(ctx context.Context, by access.Caller, name, digest string) (declared.State, error) {
	if err := m.use.Guard.Check(ctx, change.ApproveUpstream); err != nil {
		return declared.State{}, err
	}
	m.changing.Lock()
	defer m.changing.Unlock()
	m.catalog.keeping.Lock()
	defer m.catalog.keeping.Unlock()
	k, err := m.catalog.find(name)
	if err != nil {
		return declared.State{}, err
	}
	if len(k.changes) == 0 {
		return declared.State{}, reason.Errorf(reason.NotFound, "the upstream server %s has no changes to approve", name).
			WithRemedy("Run `palyra mcp refresh %s` to check for changed definitions.", name)
	}
	if now := k.Seen.Digest(); digest != now {
		return declared.State{}, reason.Errorf(reason.DigestMismatch, "the definitions of the upstream server %s changed after you reviewed them", name).
			WithRemedy("Review the difference again with `palyra mcp show %s`.", name).WithField("digest", now)
	}
	was := k.Kept
	now := k.Kept
	now.Approved, now.ApprovedBy, now.ApprovedAt = k.Seen, by.Principal.String(), time.Now().UTC()
	draft, err := drafted(ctx, event.UpstreamApproved, by, name, sighted{Server: name, Changes: notesOf(k.changes)})
	if err != nil {
		return declared.State{}, err
	}
	// The new definitions take effect only if the policies load with them.
	m.catalog.noted(name, func(k *kept) { k.Kept = now })
	if err := m.rebuild(ctx, by, name); err != nil {
		m.catalog.noted(name, func(k *kept) { k.Kept = was })
		return declared.State{}, m.undo(ctx, by, was, err)
	}
	if err := m.use.Store.PutUpstream(context.WithoutCancel(ctx), now, draft); err != nil {
		m.catalog.noted(name, func(k *kept) { k.Kept = was })
		return declared.State{}, m.undo(ctx, by, was, err)
	}
	m.catalog.noted(name, func(k *kept) { k.changes = now.Pending() })
	return m.Show(name)
}

// undo restores the previous tools and returns the cause.
func (m *Manager) undo(ctx context.Context, by access.Caller, was declared.Kept, why error) error {
	if err := m.setTools(was.Server, was.Approved); err == nil {
		_ = m.use.Policies.Rebuild(context.WithoutCancel(ctx), by.Principal.String()) // these policies loaded before
	}
	return why
}

// Remove removes a server and its tools. Policies that name one of the tools stay unchanged.
func (m *Manager) Remove(ctx context.Context, by access.Caller, name string) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	k, err := m.catalog.find(name)
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
	m.catalog.remove(name)
	if err := m.Pool.drop(ctx, name); err != nil {
		return err
	}
	return errors.Join(tidy(m.use.Prefixes, name), m.states.removeState(name))
}

// tidy removes the unused installations of a server. The caller has ended the instances that used
// them.
func tidy(p Prefixes, name string, kept ...string) error {
	if p == nil {
		return nil
	}
	return p.Keep(name, kept...)
}

// Updated returns the declaration that Update would store.
func (m *Manager) Updated(name, prefix string) (declared.Server, error) {
	k, err := m.catalog.find(name)
	if err != nil {
		return declared.Server{}, err
	}
	s := k.Server
	if s.Package == nil {
		return s, reason.Errorf(reason.InvalidInput, "the upstream server %s does not use an installed package", name).
			WithRemedy("Update %s with its own installer, then run `palyra mcp refresh %s`.", s.Where(), name)
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
		return s, reason.Errorf(reason.InvalidInput, "the upstream server %s uses the package %s, but %s was installed", name, was.Name, now.Package.Name).
			WithRemedy("Remove the server and add one for the other package.")
	}
	return now, nil
}

// Update switches the program of a server to the installation at prefix. Calls in progress finish
// with the previous installation, which is then removed if no other server uses it. Changed
// definitions wait for approval as usual.
func (m *Manager) Update(ctx context.Context, by access.Caller, name, prefix string) (declared.State, error) {
	if err := m.use.Guard.Check(ctx, change.UpdateUpstream); err != nil {
		return declared.State{}, err
	}
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
	if err := m.Pool.drop(ctx, name); err != nil {
		return declared.State{}, err
	}
	if err := tidy(m.use.Prefixes, name, prefix); err != nil {
		return declared.State{}, err
	}
	if err := m.reach(ctx, by, s); err != nil {
		m.catalog.noted(name, func(k *kept) { k.problem = reason.Known(err, reason.UpstreamUnavailable) })
	}
	return m.Show(name)
}

// redeclare stores the new declaration of a server and keeps its approvals.
func (m *Manager) redeclare(ctx context.Context, by access.Caller, s declared.Server) error {
	m.catalog.keeping.Lock()
	defer m.catalog.keeping.Unlock()
	k, err := m.catalog.find(s.Name)
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
	m.catalog.noted(s.Name, func(k *kept) { k.Kept, k.digest = now, digest })
	return nil
}
