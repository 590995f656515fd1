package api_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/emptypb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/surface/api"
)

// sends calls a method of any kind with an empty message, and returns the error.
func (c *client) sends(procedure string) error {
	t := c.w.t
	t.Helper()
	generic := connect.NewClient[emptypb.Empty, emptypb.Empty](c.http, c.w.url+procedure, connect.WithGRPC())
	m := procedures()[procedure]
	switch {
	case m == nil || m.IsStreamingClient(): // the reflection service has no descriptor here, and is a bidirectional stream
		stream := generic.CallBidiStream(t.Context())
		_ = stream.Send(&emptypb.Empty{})
		_ = stream.CloseRequest()
		_, err := stream.Receive()
		return errors.Join(err, stream.CloseResponse())
	case m.IsStreamingServer():
		stream, err := generic.CallServerStream(t.Context(), connect.NewRequest(&emptypb.Empty{}))
		if err != nil {
			return err
		}
		stream.Receive()
		return errors.Join(stream.Err(), stream.Close())
	}
	_, err := generic.CallUnary(t.Context(), connect.NewRequest(&emptypb.Empty{}))
	return err
}

// refusedBy checks that a method refuses a caller with the common form of errors, and that the
// refusal is journaled.
func (c *client) refusedBy(what, procedure, source string, want reason.Code) {
	t := c.w.t
	t.Helper()
	code := map[reason.Code]connect.Code{
		reason.Unauthenticated: connect.CodeUnauthenticated, reason.CertificateExpired: connect.CodeUnauthenticated, reason.PermissionDenied: connect.CodePermissionDenied,
	}[want]
	err := c.sends(procedure)
	wantError(t, procedure+" of "+what, err, want)
	if got := connect.CodeOf(err); got != code {
		t.Errorf("%s of %s: code %s, want %s", procedure, what, got, code)
	}
	if !c.w.audit.has(refusal{source, procedure, want}) {
		t.Errorf("%s of %s: the refusal is not journaled", procedure, what)
	}
}

// guarded returns the methods that require a caller.
func guarded() map[string]api.Method {
	list := maps.Collect(api.Methods())
	maps.DeleteFunc(list, func(_ string, m api.Method) bool { return m.Needs == api.NeedsNothing })
	return list
}

// TestEveryMethodRefusesUnauthenticatedCallers: without a valid credential, every method is refused
// in the same form, and the refusal is journaled.
func TestEveryMethodRefusesUnauthenticatedCallers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := expired(t)
	must.Get(w.identity.Devices.Revoke(t.Context(), access.User("alice"), w.eve.device, "lost", true))(t)
	must.Get(w.identity.Members.DisableMember(t.Context(), access.User("alice"), identity.Standing{Member: "dan", AcceptLoss: true}))(t)
	must.Get(w.identity.Consents.ConsentToAgent(t.Context(), w.deviceOf(access.User("alice")), identity.Consent{Agent: "coder", Withdraw: true}))(t)
	for procedure, m := range guarded() {
		for what, c := range map[string]*client{
			"nobody": w.connect("", nil), "a revoked device": w.eve, "a disabled member": w.dan, "an agent that waits": w.coder,
			"a token that is none": w.showing("Bearer pal_01JNA3Q0G0DEV1CE0000000099_" + "00000000000000000000000000000000000000000000000000000000"),
		} {
			c.refusedBy(what, procedure, "127.0.0.1", reason.Unauthenticated)
		}
		if m.Needs != api.NeedsRenewable {
			late.alice.refusedBy("an expired certificate", procedure, "127.0.0.1", reason.CertificateExpired)
		}
	}
	// Control: the same methods accept a valid credential.
	for _, procedure := range []string{statusProcedure, "/palyra.v1.AccessService/ListMembers", "/palyra.v1.GatewayService/ListTools"} {
		if err := w.alice.sends(procedure); err != nil {
			t.Errorf("the control: %s: %v", procedure, err)
		}
	}
}

// TestEveryMethodRefusesWithoutPermission: with a credential whose role lacks the permission, or a
// token that lacks the scope, every method is refused in the same form, and the refusal is
// journaled.
func TestEveryMethodRefusesWithoutPermission(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	people := map[access.Principal]*client{
		access.User("bob"): w.bob, access.User("dan"): w.dan, access.User("eve"): w.eve, access.Agent("coder"): w.coder,
	}
	lacks := func(p access.Principal, needs access.Permission) bool {
		caller := access.Caller{Principal: p, OnBehalfOf: p, Surface: access.SurfaceGRPC, Paired: true}
		return w.engine.Current().Access().Permit(policy.AccessRequest{Caller: caller, Permission: needs}) != nil
	}
	scoped := func(scope access.Permission) *client {
		return w.showing("Bearer " + w.alice.create(&palyrav1.CreateTokenRequest{Scopes: []string{string(scope)}}).GetText())
	}
	reads, lists := scoped(access.PermRunRead), scoped(access.PermToolList)
	byRole := 0
	for procedure, m := range guarded() {
		for _, p := range slices.SortedFunc(maps.Keys(people), func(a, b access.Principal) int { return len(a.String()) - len(b.String()) }) {
			if lacks(p, m.Permission) {
				people[p].refusedBy(p.String(), procedure, p.String(), reason.PermissionDenied)
				byRole++
			}
		}
		narrow := lists
		if m.Permission == access.PermToolList {
			narrow = reads
		}
		narrow.refusedBy("a token without the scope", procedure, "user:alice", reason.PermissionDenied)
	}
	if byRole < 100 {
		t.Errorf("only %d refusals by role", byRole)
	}
	// Controls: the role and the scope are accepted.
	for what, x := range map[string]struct {
		c         *client
		procedure string
	}{
		"an auditor": {w.eve, "/palyra.v1.AccessService/ListMembers"}, "a scope": {lists, "/palyra.v1.GatewayService/ListTools"}, "another": {reads, "/palyra.v1.GatewayService/ListRuns"},
	} {
		if err := x.c.sends(x.procedure); err != nil {
			t.Errorf("the control: %s: %v", what, err)
		}
	}
}
