package notify_test

import (
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/notify/notifytest"
)

// TestConsent: a chat user can vote only while the member's consent, given with its own
// credential, is in effect.
func TestConsent(t *testing.T) {
	t.Parallel()
	w := notifytest.New(t)
	ann, ada := access.Caller{Principal: access.User("ann"), DeviceID: "a"}, access.Caller{Principal: access.User("ada"), DeviceID: "d"}
	votes := func(want bool, when string) {
		t.Helper()
		_, err := w.Voter().Caller("TOWN", "UANN")
		if (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
		if err != nil && (reason.Of(err) != reason.Unauthenticated || reason.Known(err, "").NextStep() == "") {
			t.Errorf("%s: %v without a next step", when, err)
		}
		c, found := w.Users.Find("TOWN", "UANN")
		if found && w.Users.Live(c.ID) != want {
			t.Errorf("%s: votes that were cast count: %v", when, !want)
		}
		// The mappings are the same after a restart.
		again := must.Get(notify.NewUsers(t.Context(), w.Store, w.Members, w, change.Unguarded, time.Now))(t)
		if now, _ := again.Find("TOWN", "UANN"); now.Votes() != want {
			t.Errorf("%s: after a start: %+v", when, now)
		}
		if n := len(w.Users.Waiting(ann.Principal)); found && (n == 0) != want {
			t.Errorf("%s: %d wait", when, n)
		}
	}
	consent := func(by access.Caller, withdraw bool) error {
		_, err := w.Users.Consent(t.Context(), by, "TOWN", "UANN", withdraw)
		return err
	}
	must.Get(w.Users.Map(t.Context(), ada, "TOWN", "UANN", ann.Principal))(t)
	votes(false, "mapped by another")
	if err := consent(ada, false); reason.Of(err) != reason.NotFound {
		t.Errorf("another consents: %v", err)
	}
	w.Held = ann.Principal
	if err := consent(ann, false); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("in the hands of another: %v", err)
	}
	votes(false, "consented to by others")
	w.Held = access.Principal{}
	must.Do(t, consent(ann, false))
	must.Do(t, consent(ann, false)) // no change
	votes(true, "consented to")
	w.Held = ann.Principal
	must.Do(t, consent(ann, true))
	votes(false, "withdrawn")
	if n := len(w.Events(event.ChatConsent)); n != 2 {
		t.Errorf("%d events of consent", n)
	}

	// A member that maps an account to itself consents thereby, unless another member can act as
	// it.
	must.Get(w.Users.Unmap(t.Context(), ada, "TOWN", "UANN"))(t)
	must.Get(w.Users.Map(t.Context(), ann, "TOWN", "UANN", ann.Principal))(t)
	votes(false, "of their own, in the hands of another")
	must.Get(w.Users.Unmap(t.Context(), ada, "TOWN", "UANN"))(t)
	w.Held = access.Principal{}
	must.Get(w.Users.Map(t.Context(), ann, "TOWN", "UANN", ann.Principal))(t)
	votes(true, "of their own")
	// Another member does not inherit the consent.
	w.Members[access.User("bob")] = access.Member{Principal: access.User("bob"), Roles: []access.Role{access.RoleOperator}}
	must.Get(w.Users.Map(t.Context(), ada, "TOWN", "UANN", access.User("bob")))(t)
	if c, _ := w.Users.Find("TOWN", "UANN"); c.Votes() || w.Users.Live(c.ID) {
		t.Errorf("mapped to another: %+v", c)
	}
}
