// Package keyringtest runs a keyring for a single test.
package keyringtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"palyra/internal/core/bus"
	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/must"
)

// Program is GNOME's keyring, in Debian's package gnome-keyring.
const Program = "gnome-keyring-daemon"

// password is the password of the keyring.
const password = "the keyring's password"

// Keyring is a keyring on its own message bus. It cannot prompt a user.
type Keyring struct {
	// Address is the address of the bus.
	Address string

	home, run string
	cmd       *exec.Cmd
}

// New runs an unlocked keyring until the test ends, and returns the address of the bus.
func New(t testing.TB) string {
	t.Helper()
	return Start(t).Address
}

// Start runs an unlocked keyring, which ends with the test.
func Start(t testing.TB) *Keyring {
	t.Helper()
	if _, err := exec.LookPath(Program); err != nil {
		t.Skip(Program + " is not installed")
	}
	k := &Keyring{Address: bustest.New(t), home: t.TempDir(), run: must.Get(os.MkdirTemp("", "run"))(t)} // short enough for a socket
	t.Cleanup(func() { must.Check(t, os.RemoveAll(k.run)) })
	k.Begin(t)
	t.Cleanup(k.End)
	return k
}

// Begin restarts the keyring, unlocked, with its previous content.
func (k *Keyring) Begin(t testing.TB) {
	t.Helper()
	k.cmd = exec.Command(Program, "--foreground", "--components=secrets", "--unlock", "--control-directory="+filepath.Join(k.run, "keyring"))
	k.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + k.home, "XDG_DATA_HOME=" + k.home, "XDG_RUNTIME_DIR=" + k.run, "DBUS_SESSION_BUS_ADDRESS=" + k.Address}
	k.cmd.Stdin = strings.NewReader(password)
	must.Do(t, k.cmd.Start())
	waitFor(t, k.Address, service)
}

// End kills the keyring.
func (k *Keyring) End() {
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

// The Secret Service, and the interface with which GNOME's own tests unlock it.
const (
	service    = "org.freedesktop.secrets"
	root       = dbus.ObjectPath("/org/freedesktop/secrets")
	login      = root + "/collection/login"
	lock       = "org.freedesktop.Secret.Service.Lock"
	withMaster = "org.gnome.keyring.InternalUnsupportedGuiltRiddenInterface.UnlockWithMasterPassword"
)

// Lock locks all items.
func (k *Keyring) Lock(t testing.TB) {
	t.Helper()
	k.with(t, func(o dbus.BusObject, _ dbus.ObjectPath) error { return o.Call(lock, 0, []dbus.ObjectPath{login}).Err })
}

// Unlock unlocks the keyring like its user.
func (k *Keyring) Unlock(t testing.TB) {
	t.Helper()
	k.with(t, func(o dbus.BusObject, session dbus.ObjectPath) error {
		return o.Call(withMaster, 0, login, struct {
			Session           dbus.ObjectPath
			Parameters, Value []byte
			ContentType       string
		}{session, []byte{}, []byte(password), "text/plain"}).Err
	})
}

// Items returns the number of items.
func (k *Keyring) Items(t testing.TB) (n int) {
	t.Helper()
	k.with(t, func(o dbus.BusObject, _ dbus.ObjectPath) error {
		var unlocked, locked []dbus.ObjectPath
		err := o.Call("org.freedesktop.Secret.Service.SearchItems", 0, map[string]string{}).Store(&unlocked, &locked)
		n = len(unlocked) + len(locked)
		return err
	})
	return n
}

func (k *Keyring) with(t testing.TB, do func(o dbus.BusObject, session dbus.ObjectPath) error) {
	t.Helper()
	conn := must.Get(bus.Connect(t.Context(), k.Address))(t)
	defer func() { _ = conn.Close() }()
	o := conn.Object(service, root)
	var output dbus.Variant
	var session dbus.ObjectPath
	must.Do(t, o.Call("org.freedesktop.Secret.Service.OpenSession", 0, "plain", dbus.MakeVariant("")).Store(&output, &session))
	must.Do(t, do(o, session))
}

// waitFor waits until a name is owned on the bus.
func waitFor(t testing.TB, address, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn := must.Get(bus.Connect(ctx, address))(t)
	defer func() { _ = conn.Close() }()
	must.Do(t, conn.AddMatchSignalContext(ctx, dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, name)))
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	var owned bool
	must.Do(t, conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, name).Store(&owned))
	for !owned {
		select {
		case s := <-signals:
			owned = len(s.Body) == 3 && s.Body[0] == name && s.Body[2] != ""
		case <-ctx.Done():
			t.Fatal("the keyring does not come up")
		}
	}
}
