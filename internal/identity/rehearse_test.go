package identity_test

import (
	"context"
	"reflect"
	"testing"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
)

// TestDryRunChangesNothing: a dry run finds the errors of a change, reports its effect, and changes
// neither the store nor the memory.
func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	owner := identity.Local()
	request := csr(t)
	add := func(name string, roles ...access.Role) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := w.Members.AddMember(ctx, owner, name, access.KindUser, roles, access.Principal{}, request, true)
			return err
		}
	}
	must.Do(t, add("bob", access.RoleOperator)(t.Context()))
	state := func() []any {
		return []any{w.registry.List(), w.Directory.Devices(), w.Directory.History(), len(w.store.Events()), must.Get(w.store.Members(t.Context()))(t), must.Get(w.store.Devices(t.Context()))(t)}
	}
	standing := identity.Standing{Member: "bob", AcceptLoss: true}
	for name, c := range map[string]struct {
		change  func(context.Context) error
		members int
		devices int
		nothing bool
		code    reason.Code
	}{
		"add": {change: add("eve", access.RoleAuditor), members: 1, devices: 1},
		"update": {change: func(ctx context.Context) error {
			_, err := w.Members.UpdateMember(ctx, owner, identity.MemberChange{Member: "bob", AddRoles: []access.Role{access.RoleAuditor}})
			return err
		}, members: 1},
		"disable": {change: func(ctx context.Context) error { _, err := w.Members.DisableMember(ctx, owner, standing); return err }, members: 1},
		"remove":  {change: func(ctx context.Context) error { _, err := w.Members.RemoveMember(ctx, owner, standing); return err }, members: 1, devices: 1},
		"confirm": {change: func(ctx context.Context) error {
			_, err := w.Confirmations.ConfirmMember(ctx, identity.Daemon(), "bob")
			return err
		}},
		"a device": {change: func(ctx context.Context) error {
			_, err := w.Devices.AddDevice(ctx, identity.Daemon(), "", identity.Recovery{Member: "bob", Request: request, AcceptLoss: true})
			return err
		}, devices: 1},
		"nothing":                  {change: func(ctx context.Context) error { _, err := w.Members.EnableMember(ctx, owner, standing); return err }, nothing: true},
		"a role that there is not": {change: add("eve", "unknown"), code: reason.InvalidInput, nothing: true},
		"the last owner": {change: func(ctx context.Context) error {
			_, err := w.Members.DisableMember(ctx, identity.Daemon(), identity.Standing{Member: "local", AcceptLoss: true})
			return err
		}, code: reason.LastOwner, nothing: true},
	} {
		t.Run(name, func(t *testing.T) {
			before := state()
			planned, err := identity.Rehearse(t.Context(), c.change)
			if reason.Of(err) != c.code || (planned == nil) != c.nothing {
				t.Fatalf("%+v, %v", planned, err)
			}
			if planned != nil && (len(planned.Members)+len(planned.NewMembers) != c.members || len(planned.Devices)+len(planned.NewDevices) != c.devices || len(planned.Acts) == 0 || len(planned.Events) == 0) {
				t.Errorf("%+v", planned)
			}
			if after := state(); !reflect.DeepEqual(before, after) {
				t.Errorf("changed from %v to %v", before, after)
			}
		})
	}
	// Control: without a dry run, the change takes effect.
	before := state()
	must.Do(t, add("eve", access.RoleAuditor)(t.Context()))
	if reflect.DeepEqual(before, state()) {
		t.Error("nothing is ever done")
	}
}
