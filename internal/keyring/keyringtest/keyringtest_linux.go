// Package keyringtest runs a keyring for one test alone.
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

	"palyra/internal/bus"
	"palyra/internal/bus/bustest"
	"palyra/internal/must"
)

// Program is GNOME's keyring, which Debian has in the package gnome-keyring.
const Program = "gnome-keyring-daemon"

// New runs an unlocked keyring on a message bus of its own until the test ends, and
// returns the address of the bus. Nothing there can ask a person.
func New(t testing.TB) string {
	t.Helper()
	if _, err := exec.LookPath(Program); err != nil {
		t.Skip(Program + " is not installed")
	}
	address, home := bustest.New(t), t.TempDir()
	run := must.Get(os.MkdirTemp("", "run"))(t) // short enough for a socket
	t.Cleanup(func() { must.Check(t, os.RemoveAll(run)) })
	cmd := exec.Command(Program, "--foreground", "--components=secrets", "--unlock", "--control-directory="+filepath.Join(run, "keyring"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_RUNTIME_DIR=" + run, "DBUS_SESSION_BUS_ADDRESS=" + address}
	cmd.Stdin = strings.NewReader("the keyring's password")
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	waitFor(t, address, "org.freedesktop.secrets")
	return address
}

// waitFor waits until somebody has a name on the bus.
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
