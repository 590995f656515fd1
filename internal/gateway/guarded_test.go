package gateway

import (
	"context"
	"log/slog"
	"testing"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/exec/skill/registry"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/identity"
)

// permitted makes a change with the permit of the change gate, as a change that requires no
// approval.
func permitted(t *testing.T, g *gateway, kind change.Kind, apply func(context.Context) error) error {
	t.Helper()
	_, err := g.changing.Change(t.Context(), access.Caller{Principal: access.User("local")}, true, func(context.Context) (*dualcontrol.Plan, error) {
		return &dualcontrol.Plan{Kind: kind, Nothing: true, Make: func(ctx context.Context) (any, error) { return nil, apply(ctx) }}, nil
	})
	return err
}

// reload puts the policy directory in force.
func reload(t *testing.T, g *gateway, by access.Caller) {
	t.Helper()
	must.Do(t, permitted(t, g, change.ReloadPolicy, func(ctx context.Context) error { _, err := g.policies.Loader.Reload(ctx, by); return err }))
}

// TestOperationsRequireTheSecondApproval: each operation whose change requires two people refuses
// it without the approval, also for callers that do not use the API. It succeeds with a permit for
// the same change, and not with one for another.
func TestOperationsRequireTheSecondApproval(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	g := must.Get(build(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = g.close(nil) })
	must.Do(t, g.policies.Loader.Load(t.Context()))
	local := access.Caller{Principal: access.User("local"), Roles: []access.Role{access.RoleOwner}}
	owner := local.Principal
	operations := map[change.Kind]func(context.Context) error{
		change.AddMember: func(ctx context.Context) error {
			_, err := g.identity.Members.AddMember(ctx, owner, "bob", access.KindUser, []access.Role{access.RoleOperator}, access.Principal{}, nil, true)
			return err
		},
		change.UpdateMember: func(ctx context.Context) error {
			_, err := g.identity.Members.UpdateMember(ctx, owner, identity.MemberChange{Member: "nosuch"})
			return err
		},
		change.EnableMember: func(ctx context.Context) error {
			_, err := g.identity.Members.EnableMember(ctx, owner, identity.Standing{Member: "nosuch"})
			return err
		},
		change.RemoveMember: func(ctx context.Context) error {
			_, err := g.identity.Members.RemoveMember(ctx, owner, identity.Standing{Member: "nosuch"})
			return err
		},
		change.ConfirmMember: func(ctx context.Context) error {
			_, err := g.identity.Confirmations.ConfirmMember(ctx, owner, "nosuch")
			return err
		},
		change.AddDevice: func(ctx context.Context) error {
			_, err := g.identity.Devices.AddDevice(ctx, owner, "", identity.Recovery{Member: "nosuch"})
			return err
		},
		change.ActivatePolicy: func(ctx context.Context) error {
			_, err := g.policies.History.Activate(ctx, local, "sha256:00")
			return err
		},
		change.ReloadPolicy: func(ctx context.Context) error { _, err := g.policies.Loader.Reload(ctx, local); return err },
		change.LetIn: func(ctx context.Context) error {
			_, err := g.policies.Ceilings.SetCeiling(ctx, local, policyadmin.Ceiling{Name: "channel:test", Allowed: true})
			return err
		},
		change.Thaw:        func(ctx context.Context) error { return g.desk.Freezer.Thaw(ctx, local) },
		change.AddUpstream: func(ctx context.Context) error { _, err := g.upstreams.Add(ctx, local, declared.Server{}); return err },
		change.ApproveUpstream: func(ctx context.Context) error {
			_, err := g.upstreams.Approve(ctx, local, "nosuch", "sha256:00")
			return err
		},
		change.UpdateUpstream: func(ctx context.Context) error { _, err := g.upstreams.Update(ctx, local, "nosuch", "x"); return err },
		change.InstallSkill: func(ctx context.Context) error {
			_, err := g.skills.registry.Install(ctx, local, "sha256:00")
			return err
		},
		change.EnableSkill: func(ctx context.Context) error {
			_, err := g.skills.registry.SetStatus(ctx, local, "nosuch", "", registry.Active, "")
			return err
		},
		change.TrustPublisher: func(ctx context.Context) error { return g.skills.registry.Trust(ctx, local, registry.Publisher{}) },
		change.MapChatUser:    func(ctx context.Context) error { _, err := g.chatUsers.Map(ctx, local, "T1", "U1", owner); return err },
		change.UndoChanges: func(ctx context.Context) error {
			_, err := g.changes.UndoFrozen(ctx, local, "nosuch", "x", "")
			return err
		},
	}
	for _, kind := range change.Kinds {
		operate, ok := operations[kind]
		if !ok {
			if kind != change.Erase { // no operation erases yet
				t.Errorf("no operation makes the change %s", kind)
			}
			continue
		}
		if err := operate(t.Context()); reason.Of(err) != reason.PermitRefused {
			t.Errorf("%s without an approval: %v", kind, err)
		}
		other := change.Thaw
		if kind == other {
			other = change.AddMember
		}
		if err := permitted(t, g, other, operate); reason.Of(err) != reason.PermitRefused {
			t.Errorf("%s with a permit for %s: %v", kind, other, err)
		}
		if err := permitted(t, g, kind, operate); reason.Of(err) == reason.PermitRefused {
			t.Errorf("%s with a permit: %v", kind, err)
		}
		var late context.Context
		must.Check(t, permitted(t, g, kind, func(ctx context.Context) error { late = ctx; return nil }))
		if err := operate(late); reason.Of(err) != reason.PermitRefused {
			t.Errorf("%s with a permit that has ended: %v", kind, err)
		}
	}
}
