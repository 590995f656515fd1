package dualcontrol

import (
	"context"
	"fmt"
	"strings"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/reason"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/surface/api/things"
)

// Upstreams are upstream MCP servers. Changes of the servers and of the tool definitions that
// models receive require a second person.
type Upstreams struct {
	things.UpstreamManager
	Gate *dualcontrol.Gate
}

// Add adds a server.
func (u Upstreams) Add(ctx context.Context, by access.Caller, s declared.Server) (declared.State, error) {
	return propose[declared.State](ctx, u.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		s, err := u.Check(s)
		if err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: change.AddUpstream, Needs: access.PermUpstreamWrite,
			Question: dualcontrol.Question{
				ID: "upstream:" + s.Name, Title: "Add the upstream server " + s.Name,
				Summary: fmt.Sprintf("Add the upstream MCP server %s: %s.", s.Name, s.Where()), Details: s, Notes: notes(s),
			},
			Make: func(ctx context.Context) (any, error) {
				return u.UpstreamManager.Add(ctx, by, s)
			},
		}, nil
	})
}

// Update changes the installed package of a server.
func (u Upstreams) Update(ctx context.Context, by access.Caller, name, prefix string) (declared.State, error) {
	return propose[declared.State](ctx, u.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		s, err := u.Updated(name, prefix)
		if err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: change.UpdateUpstream, Needs: access.PermUpstreamWrite,
			Question: dualcontrol.Question{
				ID: "upstream:" + name + ":" + prefix, Title: "Update the upstream server " + name,
				Summary: fmt.Sprintf("Change the package of the upstream MCP server %s to %s.", name, s.Package), Details: s, Notes: notes(s),
			},
			Make: func(ctx context.Context) (any, error) {
				return u.UpstreamManager.Update(ctx, by, name, prefix)
			},
		}, nil
	})
}

// notes returns the facts that an approver should consider.
func notes(s declared.Server) (list []string) {
	if s.Trusted {
		list = append(list, "It is marked as trusted: its own annotations of tools, such as read-only, are accepted.")
	}
	if s.Shared {
		list = append(list, "One instance serves all principals.")
	}
	if len(s.Inject) > 0 {
		list = append(list, "Its program receives secrets in plain text: "+strings.Join(s.Inject, ", ")+". Each requires an approval when the server starts.")
	}
	if s.Write {
		list = append(list, "It may write to the workspace "+s.Workspace+"; each commit is decided separately.")
	}
	return list
}

// Approve accepts the current definitions of a server.
func (u Upstreams) Approve(ctx context.Context, by access.Caller, name, digest string) (declared.State, error) {
	return propose[declared.State](ctx, u.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		now, err := u.Show(name)
		if err != nil {
			return nil, err
		}
		if len(now.Changes) > 0 && digest != now.Seen.Digest() {
			return nil, reason.Errorf(reason.DigestMismatch, "the definitions of the upstream server %s changed since you reviewed them", name).
				WithRemedy("Inspect the difference again with `palyra mcp show %s`.", name)
		}
		var changed []string
		for _, c := range now.Changes {
			changed = append(changed, declared.Definition{Kind: c.Kind, Name: c.Name}.Called()+": "+c.Word())
		}
		return &dualcontrol.Plan{
			Kind: change.ApproveUpstream, Needs: access.PermUpstreamWrite,
			Question: dualcontrol.Question{
				ID: "upstream:" + name + ":" + digest, Title: "Approve the current definitions of the upstream server " + name,
				Summary: fmt.Sprintf("Approve %d changed definitions of the upstream MCP server %s.", len(now.Changes), name),
				Details: map[string]any{"name": name, "pending_digest": digest, "changes": changed}, Diff: things.Diff(now.Changes),
			},
			Make: func(ctx context.Context) (any, error) {
				return u.UpstreamManager.Approve(ctx, by, name, digest)
			},
		}, nil
	})
}
