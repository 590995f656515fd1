package keyring

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/vault/keyring/keyringtest"
)

func gnome(t *testing.T) Keyring {
	t.Helper()
	return Keyring{address: keyringtest.New(t)}
}

// lock locks all items of the keyring.
func lock(t *testing.T, k Keyring) {
	t.Helper()
	must.Do(t, k.with(t.Context(), func(o open) error {
		at, err := o.keyring(t.Context())
		if err != nil {
			return err
		}
		return o.call(t.Context(), servicePath, serviceName+".Lock", []dbus.ObjectPath{at}).Err
	}))
}

// TestGnomeKeyring: items of a real keyring can be stored, read, replaced and deleted. While it
// is locked, these operations fail without a change.
func TestGnomeKeyring(t *testing.T) {
	t.Parallel()
	k := gnome(t)
	ctx, cancel := context.WithTimeout(t.Context(), must.Patience)
	defer cancel()
	if _, err := k.Get(ctx, "one"); !errors.Is(err, ErrNotFound) {
		t.Fatalf("of an empty keyring: %v", err)
	}
	must.Do(t, k.Put(ctx, "one", []byte("first\x00\xff")))
	must.Do(t, k.Put(ctx, "two", []byte("another")))
	must.Do(t, k.Put(ctx, "one", []byte("second\x00\xff")))
	if got := must.Get(k.Get(ctx, "one"))(t); !bytes.Equal(got, []byte("second\x00\xff")) {
		t.Errorf("it holds %q", got)
	}
	lock(t, k)
	for name, err := range map[string]error{"reading": second(k.Get(ctx, "one")), "putting": k.Put(ctx, "one", []byte("x")), "taking away": k.Delete(ctx, "one")} {
		if reason.Of(err) != reason.NotConnected || !strings.Contains(err.Error(), "locked") {
			t.Errorf("%s while it is locked: %v", name, err)
		}
	}
	if errors.Is(second(k.Get(ctx, "one")), ErrNotFound) {
		t.Error("a locked item counts as none")
	}
}

func second[T any](_ T, err error) error { return err }

func TestDelete(t *testing.T) {
	t.Parallel()
	k := gnome(t)
	must.Do(t, k.Put(t.Context(), "one", []byte("x")))
	must.Do(t, k.Delete(t.Context(), "one"))
	if err := k.Delete(t.Context(), "one"); !errors.Is(err, ErrNotFound) {
		t.Errorf("twice: %v", err)
	}
}

// A machine without a session bus, or with a bus without a Secret Service, has no keyring; both
// errors are returned at once.
func TestNoKeyring(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"no bus": "unix:path=" + filepath.Join(t.TempDir(), "none"), "no service": bustest.New(t)} {
		if _, err := (Keyring{address: address}).Get(t.Context(), "one"); reason.Of(err) != reason.NotConnected || errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
