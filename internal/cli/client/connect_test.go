package client_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"palyra/internal/cli/clitest"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// TestKeyMustBePrivate: a bundle whose key other users can read is not used. Control: the same
// bundle with its original mode.
func TestKeyMustBePrivate(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes protect nothing there")
	}
	w := clitest.NewWorld(t)
	w.Want(w.Run("status"), 0)
	key := filepath.Join(w.Bundle, "key.pem")
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660} {
		must.Do(t, os.Chmod(key, mode))
		if r := w.Run("status"); r.Code == 0 || !strings.Contains(r.Err, "cert.pem") {
			t.Errorf("mode %o: exit code %d: %s", mode, r.Code, r.Err)
		}
	}
}

// TestOtherGateway: a server with a certificate of another CA is refused.
func TestOtherGateway(t *testing.T) {
	t.Parallel()
	w, other := clitest.NewWorld(t), clitest.NewWorld(t)
	r := w.Run("--address", other.Address, "status")
	w.Want(r, 6)
	if !strings.Contains(r.Err, "not the gateway of the credential bundle") {
		t.Error(r.Err)
	}
	w.Want(w.Run("--address", w.Address, "status"), 0)
}

// TestExpiredTooLongAgo: a certificate that expired more than 30 days ago is not renewed.
func TestExpiredTooLongAgo(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Now = time.Now()
	w.WriteBundle(w.Now.Add(-32*24*time.Hour), w.Now.Add(-31*24*time.Hour))
	r := w.Run("status")
	w.Want(r, 6)
	if w.Gateway.Renewals != 0 || !strings.Contains(r.Err, "CERTIFICATE_EXPIRED") || !strings.Contains(r.Err, "palyrad operator bundle") {
		t.Errorf("%d renewals, %s", w.Gateway.Renewals, r.Err)
	}
}

// TestRenewal: a certificate past two thirds of its life is renewed and the bundle replaced. A
// younger certificate, and the certificate of the local operator, are not renewed.
func TestRenewal(t *testing.T) {
	t.Parallel()
	real := time.Now()
	for _, c := range []struct {
		name     string
		from, to time.Duration
		local    bool
		renewals int
	}{
		{"young", -time.Hour, 3 * time.Hour, false, 0},
		{"old", -5 * time.Hour, time.Hour, false, 1},
		{"local", -5 * time.Hour, time.Hour, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			w.Now = real
			if c.local {
				w.Bundle = filepath.Join(w.Home, "state", "palyra", "operator")
				w.Env["PALYRA_CREDENTIALS"] = ""
			}
			w.WriteBundle(real.Add(c.from), real.Add(c.to))
			for range 2 {
				w.Want(w.Run("status"), 0)
			}
			if w.Gateway.Renewals != c.renewals {
				t.Errorf("%d renewals, want %d", w.Gateway.Renewals, c.renewals)
			}
			b := must.Get(identity.ReadBundle(w.Bundle))(t)
			if renewed := b.NotAfter().After(real.Add(23 * time.Hour)); renewed != (c.renewals > 0) {
				t.Errorf("the bundle ends %s", b.NotAfter())
			}
		})
	}
}
