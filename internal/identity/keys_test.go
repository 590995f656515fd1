package identity_test

import (
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
)

// use records a request with a certificate.
func (w *world) use(chain []*x509.Certificate) {
	w.t.Helper()
	must.Do(w.t, w.Callers.NoteUse(w.t.Context(), chain, "192.0.2.7"))
}

// next certifies a new key for a device.
func (w *world) next(of identity.Device) []*x509.Certificate {
	w.t.Helper()
	return must.Get(w.Certificates.Renew(w.t.Context(), of.ID, "", csr(w.t)))(w.t).Chain
}

// good reports whether a certificate authenticates.
func (w *world) good(chain []*x509.Certificate) bool {
	w.t.Helper()
	_, err := w.Callers.Authenticate(chain)
	if err != nil {
		reasontest.Want(w.t, "a key that does not act", err, reason.KeyReplaced)
	}
	return err == nil
}

// The old key is valid until five minutes after the first use of the new one. The issue of the
// new certificate alone does not end it, because the client may not have received it.
func TestOldKeyEndsAfterTheNewOneWasUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	first := chainOf(bob)
	w.use(first)
	lost, second := w.next(bob.Device), w.next(bob.Device)
	w.pass(3 * time.Hour)
	if !w.good(first) || !w.good(lost) || !w.good(second) {
		t.Fatal("a key ended although no newer one was used")
	}
	n := len(w.store.Events())
	w.use(second)
	w.use(second) // the second use changes nothing
	w.journaled(n, event.DeviceKeyReplaced)
	w.pass(identity.KeyGrace - time.Second)
	if !w.good(first) || !w.good(lost) {
		t.Error("a key ended before its five minutes were over")
	}
	w.pass(time.Second)
	if w.good(first) || w.good(lost) || !w.good(second) {
		t.Error("not just the old keys ended")
	}
	w.restart()
	if w.good(first) || !w.good(second) {
		t.Error("a restart forgot which key is good")
	}
}

// A key that is about to end cannot renew, and is not certified again. Otherwise a copy of the
// old credential would stay valid forever.
func TestReplacedKeyDoesNotRenew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	k := key(t)
	request := must.Get(identity.Request(k))(t)
	bob := must.Get(w.Members.AddMember(t.Context(), identity.Daemon(), "bob", access.KindUser, []access.Role{access.RoleOperator}, access.Principal{}, request, true))(t)
	old := bob.Certificate.KeySHA256
	second := must.Get(w.Certificates.Renew(t.Context(), bob.Device.ID, old, csr(t)))(t)
	must.Get(w.Certificates.Renew(t.Context(), bob.Device.ID, old, request))(t) // control: the same key again
	w.use(second.Chain)
	_, err := w.Certificates.Renew(t.Context(), bob.Device.ID, old, csr(t))
	reasontest.Want(t, "a renewal by the old key", err, reason.KeyReplaced)
	_, err = w.Certificates.Renew(t.Context(), bob.Device.ID, second.KeySHA256, request)
	reasontest.Want(t, "a renewal of the old key", err, reason.KeyReplaced)
	must.Get(w.Certificates.Renew(t.Context(), bob.Device.ID, second.KeySHA256, csr(t)))(t)
}

// After a restore, keys that the lost part of the journal certified are accepted, because their
// devices have no others. Such a key must be newer than each key of the device that the gateway
// has, and certified before the restore. Controls: a gateway without a restore, keys that
// another copy certified later, and replaced keys.
func TestKeysOfTheLostJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	first := chainOf(bob)
	w.use(first)
	unknown := func() []*x509.Certificate { // the store has no record of it
		w.pass(time.Hour)
		return must.Get(w.authority.IssueDevice(csr(t), bob.Device.ID))(t).Chain
	}
	early, middle, late := unknown(), unknown(), unknown()
	if !w.good(first) || w.good(early) || w.good(late) {
		t.Fatal("the control: a key that is not known acts")
	}
	w.pass(time.Minute)
	restoredAt := w.Now()
	w.Keys.SetRestoredAt(restoredAt)
	since := unknown()
	if !w.good(first) || !w.good(early) || !w.good(middle) || !w.good(late) || w.good(since) {
		t.Error("not just what was certified before the restore acts")
	}
	n := len(w.store.Events())
	w.use(middle)
	w.use(middle)
	w.journaled(n, event.DeviceKeyReplaced)
	if said := string(w.store.Events()[n].Payload); !strings.Contains(said, `"lost":true`) {
		t.Errorf("the journal says %s", said)
	}
	if w.good(early) {
		t.Error("a key acts that is older than the one that was used")
	}
	w.pass(identity.KeyGrace)
	if w.good(first) || !w.good(middle) || !w.good(late) {
		t.Error("not just the key of the backup ended")
	}
	w.use(late)
	w.restart()
	w.Keys.SetRestoredAt(restoredAt)
	w.pass(identity.KeyGrace)
	if w.good(middle) || !w.good(late) || w.good(since) {
		t.Error("not just the newest key acts")
	}
	n = len(w.store.Events())
	w.use(early)
	w.journaled(n, event.OldKeyUsed)
	// The key renews like any other, which ends the lost keys.
	w.use(must.Get(w.Certificates.Renew(t.Context(), bob.Device.ID, digestIn(late), csr(t)))(t).Chain)
	w.pass(identity.KeyGrace)
	if w.good(late) {
		t.Error("the lost key acts beside one that was certified since")
	}
	w.revoke(bob.Device.ID)
	if _, err := w.Callers.Authenticate(late); err == nil {
		t.Error("a revoked device acts")
	}
}

// A device that was offline renews with an expired certificate of the lost journal.
func TestExpiredKeyOfTheLostJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	w.pass(time.Hour)
	lost := must.Get(w.authority.IssueDevice(csr(t), bob.Device.ID))(t).Chain
	w.pass(ca.LeafLife + time.Hour)
	if _, err := w.Callers.AuthenticateExpired(lost); reason.Of(err) != reason.KeyReplaced {
		t.Errorf("the control: %v", err)
	}
	w.Keys.SetRestoredAt(w.Now())
	must.Get(w.Callers.AuthenticateExpired(lost))(t)
	w.use(must.Get(w.Certificates.Renew(t.Context(), bob.Device.ID, digestIn(lost), csr(t)))(t).Chain)
	if _, err := w.Callers.AuthenticateExpired(lost); reason.Of(err) != reason.KeyReplaced {
		t.Errorf("after another key was used: %v", err)
	}
}

// The use of a replaced key raises an alarm, once per device and hour, also across a restart.
// The member and the owners see a notice for seven days.
func TestOldKeyIsAnAlarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	w.add(access.User("cyd"), access.Principal{}, access.RoleOperator)
	old := chainOf(bob)
	w.use(old)
	fresh := w.next(bob.Device)
	w.use(fresh)
	w.pass(identity.KeyGrace)
	n := len(w.store.Events())
	w.use(fresh)
	w.journaled(n) // control
	w.use(old)
	w.use(old)
	w.journaled(n, event.OldKeyUsed)
	if d := w.store.Events()[n]; d.Actor != identity.Daemon().String() || d.Subject != bob.Device.ID || !strings.Contains(string(d.Payload), "192.0.2.7") {
		t.Errorf("event %+v", d)
	}
	w.pass(time.Hour - time.Second)
	w.restart()
	w.use(old)
	w.journaled(n, event.OldKeyUsed)
	w.pass(time.Second)
	w.use(old)
	w.journaled(n, event.OldKeyUsed, event.OldKeyUsed)
	w.pass(ca.LeafLife) // an expired certificate can also be a copy
	w.use(old)
	w.journaled(n, event.OldKeyUsed, event.OldKeyUsed, event.OldKeyUsed)
	for p, noticed := range map[access.Principal]bool{access.User("bob"): true, identity.Local(): true, access.User("cyd"): false} {
		if got := len(w.Notices.OldKeys(p)) > 0; got != noticed {
			t.Errorf("%s has a notice: %v", p, got)
		}
	}
	w.pass(7 * 24 * time.Hour)
	if list := w.Notices.OldKeys(identity.Local()); len(list) > 0 {
		t.Errorf("after seven days: %v", list)
	}
	must.Check(t, w.Callers.NoteUse(t.Context(), nil, ""))
}

// A certificate of the gateway's authority for a key that the device never had, as a thief of
// the issuing key could create, is refused like a replaced one.
func TestForgedCertificate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	forged := must.Get(w.authority.IssueDevice(csr(t), bob.Device.ID))(t)
	if w.good(forged.Chain) || !w.good(chainOf(bob)) {
		t.Error("a forged certificate acts")
	}
	n := len(w.store.Events())
	w.use(forged.Chain)
	w.journaled(n, event.OldKeyUsed)
}

// A use that cannot be recorded changes nothing, and is recorded at the next attempt.
func TestUnwrittenUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	fresh := w.next(bob.Device)
	full := reason.Errorf(reason.JournalUnavailable, "full")
	w.store.FailNext(full)
	if err := w.Callers.NoteUse(t.Context(), fresh, ""); !errors.Is(err, full) {
		t.Fatalf("got %v", err)
	}
	w.pass(2 * identity.KeyGrace)
	if !w.good(chainOf(bob)) || !w.good(fresh) {
		t.Error("an unrecorded use ended a key")
	}
	w.use(fresh)
	w.pass(identity.KeyGrace)
	if w.good(chainOf(bob)) {
		t.Error("the recorded one did not")
	}
}

// Interrupted renewals leave a bounded number of keys, and never remove the one in use.
func TestKeysAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	w.use(chainOf(bob))
	var last []*x509.Certificate
	for range 50 {
		last = w.next(bob.Device)
	}
	dev, _ := w.Directory.Device(bob.Device.ID)
	if len(dev.Keys) > 8 || !w.good(chainOf(bob)) || !w.good(last) {
		t.Errorf("%d keys", len(dev.Keys))
	}
}

// TestRunReportsExpiredKeys: Keys.Run reports each key that ends, at its end, and no other.
func TestRunReportsExpiredKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.clock = time.Now
		w.start()
		bob := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
		var mu sync.Mutex
		var told []string
		ended := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(told)
		}
		w.Keys.OnEnd(func(device, key string, why *reason.Error) {
			if device != bob.Device.ID || why.Code != reason.KeyReplaced {
				t.Errorf("told of %s, %v", device, why)
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, key)
		})
		must.Run(t, w.Keys.Run)
		synctest.Wait()
		w.use(w.next(bob.Device))
		time.Sleep(identity.KeyGrace - time.Second)
		synctest.Wait()
		if list := ended(); len(list) > 0 {
			t.Errorf("too early: %v", list)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if list := ended(); !slices.Equal(list, []string{bob.Certificate.KeySHA256}) {
			t.Errorf("ended %v", list)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if list := ended(); len(list) != 1 {
			t.Errorf("told again: %v", list)
		}
	})
}

// digestIn returns the digest of a certificate's key, as in the journal.
func digestIn(chain []*x509.Certificate) string {
	return canonical.Digest(chain[0].RawSubjectPublicKeyInfo)
}
