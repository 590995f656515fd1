package identity_test

import (
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// Only the device of an expired certificate may renew with it, while the device and its member
// are valid.
func TestExpiredMayRenew(t *testing.T) {
	t.Parallel()
	st := func(name string) identity.Standing { return identity.Standing{Member: name, AcceptLoss: true} }
	for name, x := range map[string]struct {
		change func(w *world, made map[string]identity.Admission)
		after  time.Duration
		good   bool
	}{
		"the control":    {nil, time.Hour, true},
		"after 29 days":  {nil, 29 * 24 * time.Hour, true},
		"after 31 days":  {nil, 31 * 24 * time.Hour, false},
		"before its end": {nil, -time.Hour, false},
		"revoked":        {func(w *world, made map[string]identity.Admission) { w.revoke(made["helper"].Device.ID) }, time.Hour, false},
		"disabled": {func(w *world, _ map[string]identity.Admission) {
			must.Get(w.Members.DisableMember(w.t.Context(), identity.Local(), st("helper")))(w.t)
		}, time.Hour, false},
		"owner disabled": {func(w *world, _ map[string]identity.Admission) {
			must.Get(w.Members.DisableMember(w.t.Context(), identity.Local(), st("bob")))(w.t)
		}, time.Hour, false},
		"removed": {func(w *world, _ map[string]identity.Admission) {
			must.Get(w.Members.RemoveMember(w.t.Context(), identity.Local(), st("helper")))(w.t)
		}, time.Hour, false},
		"with another key that was used": {func(w *world, made map[string]identity.Admission) {
			w.use(must.Get(w.Certificates.Renew(w.t.Context(), made["helper"].Device.ID, "", csr(w.t)))(w.t).Chain)
		}, time.Hour, false},
		"with another key that was never used": {func(w *world, made map[string]identity.Admission) {
			must.Get(w.Certificates.Renew(w.t.Context(), made["helper"].Device.ID, "", csr(w.t)))(w.t)
		}, time.Hour, true},
		"an unknown device": {func(w *world, made map[string]identity.Admission) {
			made["helper"] = identity.Admission{Certificate: must.Get(w.authority.IssueDevice(csr(w.t), "01JNA3Q0G0DEV1CE0000000099"))(w.t)}
		}, time.Hour, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, made := team(t)
			if x.change != nil {
				x.change(w, made)
			}
			chain := chainOf(made["helper"])
			w.pass(ca.LeafLife + x.after)
			c, err := w.Callers.AuthenticateExpired(chain)
			// A replaced key is accepted in the handshake, so that the client receives the reason for
			// the refusal.
			let := x.good || reason.Of(err) == reason.KeyReplaced
			if good := err == nil; good != x.good || w.Callers.AllowExpired(chain) == nil != let {
				t.Fatalf("%+v, %v", c, err)
			}
			if err != nil && strings.Contains(name, "used") {
				reasontest.Want(t, name, err, reason.KeyReplaced)
				return
			}
			if err != nil {
				reasontest.Want(t, name, err, reason.Unauthenticated)
				return
			}
			if c.Principal != access.Agent("helper") || c.OnBehalfOf != access.User("bob") || c.DeviceID != made["helper"].Device.ID {
				t.Errorf("caller %+v", c)
			}
			_, err = w.Callers.Authenticate(chain)
			reasontest.Want(t, "for anything else", err, reason.Unauthenticated)
			fresh := must.Get(w.Certificates.Renew(t.Context(), c.DeviceID, "", csr(t)))(t)
			must.Get(w.Callers.Authenticate(fresh.Chain))(t)
			must.Get(w.Callers.AuthenticateExpired(chain))(t) // the response may have been lost
			w.use(fresh.Chain)
			_, err = w.Callers.AuthenticateExpired(chain)
			reasontest.Want(t, "once another key was used", err, reason.KeyReplaced)
		})
	}
}
