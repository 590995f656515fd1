package login_test

import (
	"strings"
	"testing"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/identity"
	"palyra/internal/identity/login"
)

func TestDeviceFlow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.begin("")
	if s.begun.UserCode == "" || !strings.HasSuffix(s.begun.VerificationURI, "/activate") || s.begun.Interval != time.Second || s.begun.AuthorizationURL != "" {
		t.Errorf("begun: %+v", s.begun)
	}
	asked := w.provider.Asked("/token")
	if _, wait, err := s.poll(); err != nil || wait <= 0 || wait > time.Second || w.provider.Asked("/token") != asked {
		t.Errorf("at once: wait %s, %v", wait, err)
	}
	w.pass(time.Second)
	if _, wait, err := s.poll(); err != nil || wait != time.Second {
		t.Errorf("while nobody confirmed: wait %s, %v", wait, err)
	}
	w.provider.Slow(1)
	w.pass(time.Second)
	if _, wait, err := s.poll(); err != nil || wait != 6*time.Second {
		t.Errorf("when asked to slow down: wait %s, %v", wait, err)
	}
	w.provider.Confirm(s.begun.UserCode, true)
	w.pass(6 * time.Second)
	in, wait, err := s.poll()
	if err != nil || wait != 0 || in.Member.Principal != access.User("ann") {
		t.Fatalf("confirmed: %+v, %s, %v", in.Member, wait, err)
	}
	must.Get(w.identity.Callers.Authenticate(in.Certificate.Chain))(t)
	_, _, err = s.poll()
	wantRefused(t, "asked again", err, "login not found")
}

func TestDeviceFlowIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	denied := w.begin("")
	w.provider.Confirm(denied.begun.UserCode, false)
	w.pass(time.Second)
	_, _, err := denied.poll()
	wantRefused(t, "denied", err, "was denied at the identity provider")
	_, _, err = denied.poll()
	wantRefused(t, "denied, again", err, "login not found")

	late := w.begin("")
	w.pass(6 * time.Minute)
	w.provider.Confirm(late.begun.UserCode, true)
	_, _, err = late.poll()
	wantRefused(t, "after the provider's time", err, "the login was not confirmed in time")

	// A caller that has the login's id but another key is refused, and the two flows cannot be
	// mixed.
	mine := w.begin("")
	w.provider.Confirm(mine.begun.UserCode, true)
	w.pass(time.Second)
	if _, _, err := w.Poll(t.Context(), login.Question{ID: mine.begun.ID, Proof: []byte("x"), Address: "192.0.2.9"}); reason.Of(err) != reason.LoginRefused {
		t.Errorf("another key: %v", err)
	}
	_, err = mine.complete(login.Answer{ID: mine.begun.ID, Proof: must.Get(identity.Prove(mine.key, identity.LoginProof(mine.begun.ID, "")))(t), Address: mine.from})
	wantRefused(t, "an answer of the other flow", err, "login not found")
	browser := w.begin(redirect)
	_, _, err = browser.poll()
	wantRefused(t, "a question of the other flow", err, "login not found")
	if in, _, err := mine.poll(); err != nil || in.Device.ID == "" {
		t.Errorf("control: %v", err)
	}
}

// The device flow is off by default, because an attacker could start a login and trick another
// person into confirming it.
func TestDeviceFlowIsOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *login.Config) { c.DeviceFlow = false })
	_, err := w.tryBegin("", "192.0.2.1")
	wantRefused(t, "switched off", err, "does not support confirmation on another device")
	w.begin(redirect)

	without := newWorld(t)
	without.provider.Discovery(func(said map[string]any) { delete(said, "device_authorization_endpoint") })
	_, err = without.tryBegin("", "192.0.2.1")
	wantRefused(t, "a provider without it", err, "has no device flow")
	without.begin(redirect)
}

func TestDeviceFlowWhileTheProviderIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.provider.Down(true, "/device")
	if _, err := w.tryBegin("", "192.0.2.1"); reason.Of(err) != reason.LoginUnavailable {
		t.Errorf("beginning: %v", err)
	}
	w.provider.Down(false, "/device")
	s := w.begin("")
	w.provider.Down(true, "/token")
	w.pass(time.Second)
	if _, _, err := s.poll(); reason.Of(err) != reason.LoginUnavailable {
		t.Errorf("asking: %v", err)
	}
	// The login continues when the provider is available again.
	w.provider.Down(false, "/token")
	w.provider.Confirm(s.begun.UserCode, true)
	w.pass(time.Second)
	if in, _, err := s.poll(); err != nil || in.Device.ID == "" {
		t.Errorf("afterwards: %v", err)
	}
}
