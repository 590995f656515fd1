package identity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/identity"
	"palyra/internal/identity/ca"
	"palyra/internal/identity/ca/catest"
)

func TestFirstStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.start()
	w.journaled(0, event.CACreated, event.MemberAdded, event.CertificateMade)
	m, ok := w.registry.Get(identity.Local())
	if !ok || !m.Holds(access.RoleOwner) || d.Principal != access.User("local") || !d.Local {
		t.Errorf("member %+v, device %+v", m, d)
	}
	b := must.Get(identity.ReadBundle(w.local().Dir))(t)
	c := must.Get(w.Callers.Authenticate(b.Chain))(t)
	if c.Principal != identity.Local() || c.OnBehalfOf != identity.Local() || c.DeviceID != d.ID || !c.Paired || c.Present || !slices.Contains(c.Roles, access.RoleOwner) {
		t.Errorf("caller %+v", c)
	}

	// The next start has the same device, with a new key and certificate.
	n := len(w.store.Events())
	w.pass(time.Hour)
	w.restart()
	again := w.start()
	w.journaled(n, event.CertificateMade)
	if again.ID != d.ID || again.Serial == d.Serial || again.KeySHA256 == d.KeySHA256 || len(w.Directory.Devices()) != 1 {
		t.Errorf("second start: %+v, was %+v", again, d)
	}
}

func TestRevokedLocalOperatorStaysOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.start()
	must.Get(w.Devices.Revoke(t.Context(), identity.Local(), d.ID, "test", true))(t)
	w.restart()
	if _, ok, err := w.Local.Start(t.Context(), w.local()); ok || err != nil {
		t.Errorf("a revoked local operator came back: %v, %v", ok, err)
	}
	// A command on the host restores access.
	b := w.add(access.User("alice"), access.Principal{}, access.RoleOwner)
	if _, err := w.Callers.Authenticate(chainOf(b)); err != nil {
		t.Error(err)
	}
}

func TestAddMember(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	n := len(w.store.Events())
	alice := w.add(access.User("alice"), access.Principal{}, access.RoleOperator, "security", access.RoleOperator)
	w.journaled(n, event.MemberAdded, event.CertificateMade)
	if !slices.Equal(alice.Member.Roles, []access.Role{access.RoleOperator, "security"}) {
		t.Errorf("roles %v", alice.Member.Roles)
	}
	bot := w.add(access.Agent("bot"), access.User("alice"), access.RoleAgent)
	c, err := w.Callers.Authenticate(chainOf(bot))
	if err != nil || c.Principal != access.Agent("bot") || c.OnBehalfOf != access.User("alice") {
		t.Errorf("caller %+v, %v", c, err)
	}

	n = len(w.store.Events())
	user, agent, none := access.KindUser, access.KindAgent, access.Principal{}
	operator := []access.Role{access.RoleOperator}
	for name, x := range map[string]struct {
		actor access.Principal
		name  string
		kind  access.Kind
		roles []access.Role
		owner access.Principal
		csr   []byte
		want  reason.Code
	}{
		"name":                {identity.Daemon(), "A b", user, operator, none, csr(t), reason.InvalidInput},
		"kind":                {identity.Daemon(), "x", access.KindNode, operator, none, csr(t), reason.InvalidInput},
		"no role":             {identity.Daemon(), "x", user, nil, none, csr(t), reason.InvalidInput},
		"unknown role":        {identity.Daemon(), "x", user, []access.Role{"root"}, none, csr(t), reason.InvalidInput},
		"owner of a user":     {identity.Daemon(), "x", user, operator, access.User("alice"), csr(t), reason.InvalidInput},
		"a user as an agent":  {identity.Daemon(), "x", user, []access.Role{access.RoleAgent}, none, csr(t), reason.InvalidInput},
		"agent without owner": {identity.Daemon(), "x", agent, []access.Role{access.RoleAgent}, none, csr(t), reason.InvalidInput},
		"agent of an agent":   {identity.Daemon(), "x", agent, []access.Role{access.RoleAgent}, access.Agent("bot"), csr(t), reason.InvalidInput},
		"agent that decides":  {identity.Daemon(), "x", agent, operator, access.User("alice"), csr(t), reason.InvalidInput},
		"twice":               {identity.Daemon(), "alice", user, operator, none, csr(t), reason.AlreadyExists},
		"no request":          {identity.Daemon(), "x", user, operator, none, nil, reason.InvalidInput},
		"by an operator":      {access.User("alice"), "x", user, operator, none, csr(t), reason.PermissionDenied},
		"by an agent":         {access.Agent("bot"), "x", user, operator, none, csr(t), reason.PermissionDenied},
		"without a requester": {none, "x", user, operator, none, csr(t), reason.PermissionDenied},
		"by a stranger":       {access.User("eve"), "x", user, operator, none, csr(t), reason.PermissionDenied},
	} {
		_, err := w.Members.AddMember(t.Context(), x.actor, x.name, x.kind, x.roles, x.owner, x.csr, true)
		reasontest.Want(t, name, err, x.want)
	}
	w.journaled(n)
	if len(w.registry.List()) != 3 || len(w.Directory.Devices()) != 3 {
		t.Errorf("%d members, %d devices", len(w.registry.List()), len(w.Directory.Devices()))
	}
}

func TestNoRoleAboveOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	w.add(access.User("admin"), access.Principal{}, access.RoleAdmin)
	w.add(access.User("dev"), access.Principal{}, access.RoleDeveloper)
	admin := access.User("admin")
	for _, role := range []access.Role{access.RoleOwner, access.RoleAdmin} {
		_, err := w.Members.AddMember(t.Context(), admin, "x", access.KindUser, []access.Role{role}, access.Principal{}, csr(t), true)
		reasontest.Want(t, "admin makes "+string(role), err, reason.PermissionDenied)
	}
	local := w.Directory.Devices()[slices.IndexFunc(w.Directory.Devices(), func(d identity.Device) bool { return d.Local })]
	for _, actor := range []access.Principal{admin, access.User("dev")} {
		_, err := w.Devices.Revoke(t.Context(), actor, local.ID, "", true)
		reasontest.Want(t, actor.String()+" revokes the owner", err, reason.PermissionDenied)
	}
	// Control: each may do what their role permits.
	for actor, role := range map[access.Principal]access.Role{admin: access.RoleOperator, identity.Local(): access.RoleOwner} {
		if _, err := w.Members.AddMember(t.Context(), actor, "made-by-"+actor.Name, access.KindUser, []access.Role{role}, access.Principal{}, csr(t), true); err != nil {
			t.Errorf("%s makes %s: %v", actor, role, err)
		}
	}
}

// TestAuthenticateRefuses includes its controls: each credential is valid before the single
// change that must invalidate it.
func TestAuthenticateRefuses(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, stop := range map[string]func(*world, identity.Admission, identity.Admission) error{
		"expired": func(w *world, _, _ identity.Admission) error { w.pass(ca.LeafLife + time.Minute); return nil },
		"revoked": func(w *world, _, bot identity.Admission) error {
			_, err := w.Devices.Revoke(ctx, identity.Local(), bot.Device.ID, "lost", true)
			return err
		},
		"disabled": func(w *world, _, bot identity.Admission) error {
			w.disable(bot.Member)
			return nil
		},
		"owner disabled": func(w *world, alice, _ identity.Admission) error {
			w.disable(alice.Member)
			return nil
		},
		"revoked and restarted": func(w *world, _, bot identity.Admission) error {
			_, err := w.Devices.Revoke(ctx, identity.Local(), bot.Device.ID, "lost", true)
			w.restart()
			return err
		},
	} {
		w := newWorld(t)
		w.start()
		alice := w.add(access.User("alice"), access.Principal{}, access.RoleDeveloper)
		bot := w.add(access.Agent("bot"), access.User("alice"), access.RoleAgent)
		for range 2 { // the second time uses the cache of verified certificates
			if _, err := w.Callers.Authenticate(chainOf(bot)); err != nil {
				t.Errorf("control: %s: %v", name, err)
			}
		}
		if err := stop(w, alice, bot); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := w.Callers.Authenticate(chainOf(bot))
		reasontest.Want(t, name, err, reason.Unauthenticated)
		if _, err := w.Certificates.Renew(ctx, bot.Device.ID, "", csr(t)); name != "expired" && reason.Of(err) != reason.Unauthenticated {
			t.Errorf("%s: renewal gives %v", name, err)
		}
	}

	w, other := newWorld(t), newWorld(t)
	w.start()
	foreign := other.add(access.User("alice"), access.Principal{}, access.RoleOwner)
	_, err := w.Callers.Authenticate(chainOf(foreign))
	reasontest.Want(t, "another gateway's certificate", err, reason.Unauthenticated)
	_, err = w.Callers.Authenticate(nil)
	reasontest.Want(t, "no certificate", err, reason.Unauthenticated)
	// The certificate is signed by this gateway, but its id was never admitted.
	issued := must.Get(w.authority.IssueDevice(csr(t), "01JNA3Q0G0DEV1CE0000000000"))(t)
	_, err = w.Callers.Authenticate(issued.Chain)
	reasontest.Want(t, "unknown device", err, reason.Unauthenticated)
}

// TestTLS makes real handshakes with the bundle that the first start wrote.
func TestTLS(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.start()
	server := must.Get(w.authority.ServerTLS(ca.Loopback(), w.Callers.Allow))(t)
	b := must.Get(identity.ReadBundle(w.local().Dir))(t)
	if err := dial(t, server, b.ClientTLS()); err != nil {
		t.Errorf("control: %v", err)
	}
	var told []string
	w.OpenWork.OnEnd(func(d identity.Device, why *reason.Error) {
		told = append(told, d.ID)
		if next := why.NextStep(); !strings.Contains(next, "palyra pair") || strings.Contains(next, "operator add") {
			t.Errorf("the next step is %q", next)
		}
	})
	must.Get(w.Devices.Revoke(t.Context(), identity.Local(), d.ID, "lost", true))(t)
	if err := dial(t, server, b.ClientTLS()); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("a revoked device shook hands: %v", err)
	}
	if !slices.Equal(told, []string{d.ID}) {
		t.Errorf("streams of %v were ended", told)
	}
	// Control: without the check, the certificate is accepted.
	open := must.Get(w.authority.ServerTLS(ca.Loopback(), func([]*x509.Certificate) error { return nil }))(t)
	if err := dial(t, open, b.ClientTLS()); err != nil {
		t.Errorf("control: %v", err)
	}
}

// dial returns the server's error of one handshake.
func dial(t *testing.T, server, client *tls.Config) error {
	t.Helper()
	_, err, _ := catest.Handshake(t, server, client)
	return err
}

func TestFailedUnitChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.start()
	alice := w.add(access.User("alice"), access.Principal{}, access.RoleOperator)
	n := len(w.store.Events())
	disk := reason.Errorf(reason.JournalUnavailable, "disk full")
	for name, do := range map[string]func() error{
		"add": func() error {
			_, err := w.Members.AddMember(t.Context(), identity.Local(), "x", access.KindUser, []access.Role{access.RoleAuditor}, access.Principal{}, csr(t), true)
			return err
		},
		"renew": func() error { _, err := w.Certificates.Renew(t.Context(), d.ID, "", csr(t)); return err },
		"revoke": func() error {
			_, err := w.Devices.Revoke(t.Context(), identity.Local(), alice.Device.ID, "", true)
			return err
		},
	} {
		w.store.FailNext(disk)
		reasontest.Want(t, name, do(), reason.JournalUnavailable)
	}
	w.journaled(n)
	if _, ok := w.registry.Get(access.User("x")); ok || len(w.Directory.Devices()) != 2 {
		t.Error("an unrecorded member is there")
	}
	if _, err := w.Callers.Authenticate(chainOf(alice)); err != nil {
		t.Errorf("an unrecorded change is in force: %v", err)
	}
	if now, _ := w.Directory.Device(d.ID); now.Version != d.Version {
		t.Errorf("device %+v, was %+v", now, d)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Devices.Revoke(ended, identity.Local(), alice.Device.ID, "", true); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestConflictIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.start()
	// Another process renews the device without this service.
	behind := d
	behind.Version++
	must.Do(t, w.store.Apply(t.Context(), identity.Change{Devices: []identity.Device{behind}}))
	got, err := w.Devices.Revoke(t.Context(), identity.Local(), d.ID, "lost", true)
	if err != nil || got.Version != d.Version+2 {
		t.Errorf("%+v, %v", got, err)
	}
	// A device that another process revoked cannot be renewed.
	w = newWorld(t)
	d = w.start()
	behind = d
	behind.Version++
	behind.RevokedAt = w.Now()
	must.Do(t, w.store.Apply(t.Context(), identity.Change{Devices: []identity.Device{behind}}))
	_, err = w.Certificates.Renew(t.Context(), d.ID, "", csr(t))
	reasontest.Want(t, "renewing a device that was revoked elsewhere", err, reason.Unauthenticated)
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	alice := w.add(access.User("alice"), access.Principal{}, access.RoleDeveloper)
	n := len(w.store.Events())
	d, err := w.Devices.Revoke(t.Context(), access.User("alice"), alice.Device.ID, "lost", true)
	if err != nil || !d.Revoked() || d.RevokedBy != access.User("alice") || d.RevokeReason != "lost" {
		t.Errorf("%+v, %v", d, err)
	}
	if again, err := w.Devices.Revoke(t.Context(), identity.Local(), alice.Device.ID, "again", true); err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("revoking twice: %+v, %v", again, err)
	}
	w.journaled(n, event.DeviceRevoked)
	_, err = w.Devices.Revoke(t.Context(), identity.Local(), "01JNA3Q0G0DEV1CE0000000000", "", true)
	reasontest.Want(t, "unknown device", err, reason.NotFound)
	_, err = w.Devices.Revoke(t.Context(), identity.Local(), d.ID, strings.Repeat("x", 501), true)
	reasontest.Want(t, "long reason", err, reason.InvalidInput)
}

func TestConcurrentChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.start()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			if _, err := w.Certificates.Renew(t.Context(), d.ID, "", csr(t)); err != nil {
				t.Error(err)
			}
			w.add(access.User(fmt.Sprintf("u%d", i)), access.Principal{}, access.RoleAuditor)
		})
	}
	group.Wait()
	if got, _ := w.Directory.Device(d.ID); got.Version != d.Version+8 || len(w.registry.List()) != 9 {
		t.Errorf("version %d, %d members", got.Version, len(w.registry.List()))
	}
}

func TestRunKeepsTheLocalOperatorFresh(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		d := w.start()
		first := w.authority.Root().NotBefore
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		rounds := 0
		go func() {
			done <- w.Local.Run(ctx, w.local(), func() error { rounds++; return nil }, func(err error) { t.Error(err) })
		}()
		for range 30 {
			w.pass(time.Hour)
			time.Sleep(time.Hour)
			synctest.Wait()
		}
		cancel()
		must.Check(t, <-done)
		b := must.Get(identity.ReadBundle(w.local().Dir))(t)
		if _, err := w.Callers.Authenticate(b.Chain); err != nil || rounds < 29 {
			t.Errorf("after 30 hours (since %s): %v, %d rounds", first, err, rounds)
		}
		if now, _ := w.Directory.Device(d.ID); now.Serial == d.Serial {
			t.Error("the certificate was not renewed")
		}
	})
}

func TestBundle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	dir := w.local().Dir
	b, err := identity.ReadBundle(dir)
	must.Do(t, err)
	if b.Address != "127.0.0.1:7443" || b.ServerName != "localhost" || !b.RenewAt().Before(b.NotAfter()) {
		t.Errorf("bundle %s at %s, %s", b, b.Address, b.ServerName)
	}
	for _, text := range []string{fmt.Sprint(b), fmt.Sprintf("%+v", b), fmt.Sprintf("%#v", b), b.LogValue().String()} {
		if !strings.HasPrefix(text, "credential bundle of spiffe://") || len(text) > 100 {
			t.Errorf("prints %q", text)
		}
	}
	write := func(name, data string) func() {
		path := filepath.Join(dir, name)
		old := must.Get(os.ReadFile(path))(t)
		must.Do(t, os.WriteFile(path, []byte(data), 0o600))
		return func() {
			must.Do(t, os.WriteFile(path, old, 0o600))
		}
	}
	other := newWorld(t)
	other.start()
	foreign := func(name string) string {
		data := must.Get(os.ReadFile(filepath.Join(other.local().Dir, name)))(t)
		return string(data)
	}
	for name, c := range map[string]struct{ file, data string }{
		"no key":           {"cert.pem", certificatesOf(t, dir)},
		"text for a key":   {"cert.pem", "secret"},
		"another key":      {"cert.pem", keyIn(foreign("cert.pem")) + certificatesOf(t, dir)},
		"another root":     {"ca.pem", foreign("ca.pem")},
		"no certificate":   {"cert.pem", ""},
		"unknown endpoint": {"endpoint", "address=a:1\nserver_name=a\nproxy=b\n"},
		"half endpoint":    {"endpoint", "address=a:1\n"},
	} {
		restore := write(c.file, c.data)
		_, err := identity.ReadBundle(dir)
		reasontest.Want(t, name, err, reason.ConfigInvalid)
		restore()
	}
	_, err = identity.ReadBundle(t.TempDir())
	reasontest.Want(t, "an empty directory", err, reason.NotConnected)
	b.Address = "a:1\nserver_name=b"
	reasontest.Want(t, "line break", identity.WriteBundle(dir, b), reason.InvalidInput)
	if runtime.GOOS != "windows" {
		wideModes(t, dir)
	}
}

// keyIn returns the private key in a bundle's credential, and certificatesOf the certificates
// after it.
func keyIn(text string) string {
	block, _ := pem.Decode([]byte(text))
	return string(pem.EncodeToMemory(block))
}

func certificatesOf(t *testing.T, dir string) string {
	t.Helper()
	_, rest := pem.Decode(must.Get(os.ReadFile(filepath.Join(dir, "cert.pem")))(t))
	return string(rest)
}

func wideModes(t *testing.T, dir string) {
	t.Helper()
	for _, mode := range []os.FileMode{0o750, 0o705, 0o710, 0o700} {
		must.Do(t, os.Chmod(dir, mode))
		_, err := identity.ReadBundle(dir)
		var e *reason.Error
		if mode != 0o700 && (!errors.As(err, &e) || !strings.Contains(e.NextStep(), "chmod 700")) || mode == 0o700 && err != nil {
			t.Errorf("a directory with mode %o: %v", mode, err)
		}
	}
	for _, name := range []string{"cert.pem", "ca.pem", "endpoint"} {
		path := filepath.Join(dir, name)
		for mode := os.FileMode(0); mode <= 0o077; mode++ {
			must.Do(t, os.Chmod(path, 0o600|mode))
			_, err := identity.ReadBundle(dir)
			if (err == nil) != (mode == 0) {
				t.Errorf("%s with mode %o: %v", name, 0o600|mode, err)
			}
			var e *reason.Error
			if mode != 0 && (!errors.As(err, &e) || !strings.Contains(e.NextStep(), "chmod 600")) {
				t.Errorf("%s with mode %o: no remedy in %v", name, 0o600|mode, err)
			}
		}
		must.Do(t, os.Chmod(path, 0o600))
	}
	must.Do(t, os.Chmod(dir, 0o755))
	_, err := identity.BundleKey(dir)
	reasontest.Want(t, "wide directory", err, reason.ConfigInvalid)
}

// TestRenewalsAreBounded: a device that renews repeatedly is refused until an hour has passed;
// others are not affected.
func TestRenewalsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start()
	owner := w.add(access.User("alice"), access.Principal{}, access.RoleOwner)
	other := w.add(access.User("bob"), access.Principal{}, access.RoleOperator)
	request := csr(t)
	refused := 0
	for range 400 {
		if _, err := w.Certificates.Renew(t.Context(), owner.Device.ID, "", request); reason.Of(err) == reason.RateLimited {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused != 100 {
		t.Errorf("%d renewals of 400 were refused, want 100", refused)
	}
	must.Get(w.Certificates.Renew(t.Context(), other.Device.ID, "", csr(t)))(t)
	w.now = w.now.Add(time.Hour)
	must.Get(w.Certificates.Renew(t.Context(), owner.Device.ID, "", request))(t)
}
