package api_test

import (
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func (c *client) members() palyrav1connect.AccessServiceClient {
	return palyrav1connect.NewAccessServiceClient(c.http, c.w.url)
}

// Only owners and admins may change members, and only owners may change owners and admins.
// Other callers get the same refusal, which is journaled.
func TestMemberChangePermissions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	adam := w.admit(access.User("adam"), access.Principal{}, access.RoleAdmin)
	w.engine.Swap(w.policySet(w.registry.List()))
	ctx := t.Context()
	changes := map[string]struct {
		procedure string
		of        func(c *client, member string) error
	}{
		"update": {palyrav1connect.AccessServiceUpdateMemberProcedure, func(c *client, member string) error {
			_, err := c.members().UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: member, AddRoles: []string{"developer"}, AcceptLoss: true})
			return err
		}},
		"disable": {palyrav1connect.AccessServiceDisableMemberProcedure, func(c *client, member string) error {
			_, err := c.members().DisableMember(ctx, &palyrav1.DisableMemberRequest{Member: member, AcceptLoss: true})
			return err
		}},
		"enable": {palyrav1connect.AccessServiceEnableMemberProcedure, func(c *client, member string) error {
			_, err := c.members().EnableMember(ctx, &palyrav1.EnableMemberRequest{Member: member, AcceptLoss: true})
			return err
		}},
		"remove": {palyrav1connect.AccessServiceRemoveMemberProcedure, func(c *client, member string) error {
			_, err := c.members().RemoveMember(ctx, &palyrav1.RemoveMemberRequest{Member: member, AcceptLoss: true})
			return err
		}},
	}
	nobody := w.connect("", nil)
	for name, change := range changes {
		for who, c := range map[string]*client{"user:bob": w.bob, "user:dan": w.dan, "user:eve": w.eve, "agent:coder": w.coder} {
			for _, member := range []string{"eve", who, "nobody"} {
				wantError(t, name+" of "+member+" by "+who, change.of(c, member), reason.PermissionDenied)
			}
			if !w.audit.has(refusal{who, change.procedure, reason.PermissionDenied}) {
				t.Errorf("%s by %s is not journaled", name, who)
			}
		}
		wantError(t, name+" by a stranger", change.of(nobody, "eve"), reason.Unauthenticated)
		for _, member := range []string{"alice", "user:alice", "adam"} {
			wantError(t, name+" of "+member+" by an admin", change.of(adam, member), reason.PermissionDenied)
		}
	}
	for name, req := range map[string]*palyrav1.UpdateMemberRequest{
		"gives owner": {Member: "eve", AddRoles: []string{"owner"}}, "takes admin": {Member: "adam", RemoveRoles: []string{"admin"}},
		"an owner's agent": {Member: "coder", Owner: "user:bob"},
	} {
		_, err := adam.members().UpdateMember(ctx, req)
		wantError(t, "an admin "+name, err, reason.PermissionDenied)
	}
	for _, name := range []string{"update", "disable", "enable", "remove"} {
		if err := changes[name].of(adam, "eve"); err != nil {
			t.Errorf("%s by an admin: %v", name, err)
		}
	}
	if err := changes["disable"].of(w.alice, "adam"); err != nil {
		t.Errorf("an owner disables an admin: %v", err)
	}
}

// A member's streams end when it loses a permission, and its next request is judged by its new
// permissions.
func TestChangesOfMembersEndStreams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	stream, other := w.bob.watch(), w.eve.watch()
	must.Get(w.alice.members().UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: "bob", AddRoles: []string{"developer"}}))(t)
	if !stream.open() {
		t.Error("a role more ended the stream")
	}
	must.Get(w.alice.members().UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: "bob", RemoveRoles: []string{"operator"}, AcceptLoss: true}))(t)
	wantError(t, "with a role less the stream", stream.ended(t), reason.Unauthenticated)
	_, err := w.bob.status().Freeze(ctx, &palyrav1.FreezeRequest{})
	wantError(t, "what the role allowed", err, reason.PermissionDenied)
	if _, err := w.bob.status().GetStatus(ctx, &palyrav1.GetStatusRequest{}); err != nil {
		t.Errorf("what it still may: %v", err)
	}
	must.Get(w.alice.members().DisableMember(ctx, &palyrav1.DisableMemberRequest{Member: "eve", Reason: "on leave"}))(t)
	wantError(t, "a disabled member's stream", other.ended(t), reason.Unauthenticated)
	_, err = w.eve.status().GetStatus(ctx, &palyrav1.GetStatusRequest{})
	wantError(t, "a disabled member", err, reason.Unauthenticated)
	must.Get(w.alice.members().EnableMember(ctx, &palyrav1.EnableMemberRequest{Member: "eve"}))(t)
	if _, err := w.eve.status().GetStatus(ctx, &palyrav1.GetStatusRequest{}); err != nil {
		t.Errorf("once enabled: %v", err)
	}
	res := must.Get(w.alice.members().RemoveMember(ctx, &palyrav1.RemoveMemberRequest{Member: "eve"}))(t)
	if len(res.GetRevoked()) != 1 || res.GetRevoked()[0] != w.eve.device || res.GetMember().GetRemovedAt() == nil {
		t.Errorf("removed %v", res)
	}
	_, err = w.eve.status().GetStatus(ctx, &palyrav1.GetStatusRequest{})
	wantError(t, "a removed member", err, reason.Unauthenticated)
	listed := func(removed bool) (names []string) {
		for _, m := range must.Get(w.alice.members().ListMembers(ctx, &palyrav1.ListMembersRequest{Removed: removed}))(t).GetMembers() {
			names = append(names, m.GetPrincipal())
		}
		return names
	}
	if n, all := len(listed(false)), len(listed(true)); n != 4 || all != 5 {
		t.Errorf("%d members listed, %d with those removed", n, all)
	}
	_, err = w.alice.members().UpdateMember(ctx, &palyrav1.UpdateMemberRequest{Member: "bob", AddRoles: []string{"No Role"}})
	if e := wantError(t, "a role of no form", err, reason.InvalidInput); e == nil || connect.CodeOf(err) != connect.CodeInvalidArgument {
		t.Errorf("%v", err)
	}
}
