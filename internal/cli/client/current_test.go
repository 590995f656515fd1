package client_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/canonical"
	"palyra/internal/core/filelock"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir/keyfile"
	"palyra/internal/identity"
	"palyra/internal/identity/keptkey"
)

// shown records the keys that requests present.
type shown struct {
	mu     sync.Mutex
	keys   []string
	serial string
}

func (s *shown) last() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keys[len(s.keys)-1]
}

func watchKeys(w *clitest.World) *shown {
	s := &shown{}
	next := w.Server.Config.Handler
	w.Server.Config.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.keys = append(s.keys, canonical.Digest(r.TLS.PeerCertificates[0].RawSubjectPublicKeyInfo))
		s.serial = r.TLS.PeerCertificates[0].SerialNumber.String()
		s.mu.Unlock()
		next.ServeHTTP(rw, r)
	})
	return s
}

func keyOf(t *testing.T, dir string) string {
	t.Helper()
	return canonical.Digest(must.Get(identity.ReadBundle(dir))(t).Chain[0].RawSubjectPublicKeyInfo)
}

// TestRunningCommandTakesTheNewKey: a long-running command uses the new key that another
// command or palyrad wrote to the bundle, and renews an old key itself. If the bundle cannot be
// read, it keeps its current key.
func TestRunningCommandTakesTheNewKey(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	s := watchKeys(w)
	a := client.NewApp(printer.Streams{Getenv: func(name string) string { return w.Env[name] }})
	now := time.Now()
	a.Now = func() time.Time { return now }
	g := must.Get(a.Connect(t.Context()))(t)
	ask := func() string {
		t.Helper()
		must.Get(g.Status.GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		return s.last()
	}
	first := keyOf(t, w.Bundle)
	if ask() != first {
		t.Fatal("the first request shows another key")
	}
	w.WriteBundle(now.Add(-time.Minute), now.Add(time.Hour))
	second := keyOf(t, w.Bundle)
	if got := ask(); got != second || got == first {
		t.Error("the command goes on with the old key")
	}
	mend := breakBundle(t, w.Bundle)
	if ask() != second {
		t.Error("a broken bundle takes the key away")
	}
	mend()
	now = now.Add(50 * time.Minute) // past two thirds of the lifetime
	third := ask()
	if third == second || third != keyOf(t, w.Bundle) || w.Gateway.Renewals != 1 {
		t.Errorf("the old key was not renewed: %d renewals", w.Gateway.Renewals)
	}
	if ask() != third || w.Gateway.Renewals != 1 {
		t.Errorf("renewed again: %d renewals", w.Gateway.Renewals)
	}
}

// TestRunningCommandWithAKeptKey: a command whose key is stored elsewhere unlocks it once and
// keeps it when the certificate is renewed. If the bundle gets another such key, which the
// command has not unlocked, it continues with the current one.
func TestRunningCommandWithAKeptKey(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	now := time.Now()
	write := func(life time.Duration) { w.WriteBundle(time.Now().Add(-time.Minute), time.Now().Add(life)) }
	keep := func(life time.Duration) {
		t.Helper()
		write(life)
		key := must.Get(identity.ReadBundle(w.Bundle))(t).Key
		public, private := must.Get(x509.MarshalPKIXPublicKey(key.Public()))(t), must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
		must.Do(t, identity.Keep(t.Context(), w.Bundle, must.Get(keptkey.Seal("correct horse", public, private))(t)))
	}
	keep(time.Hour)
	s, asked := watchKeys(w), 0
	a := client.NewApp(printer.Streams{
		Getenv: func(name string) string { return w.Env[name] }, InTerminal: true, ErrTerminal: true, Err: io.Discard,
		ReadHidden: func(context.Context) (string, error) { asked++; return "correct horse", nil },
	})
	a.Now = func() time.Time { return now }
	g := must.Get(a.Connect(t.Context()))(t)
	ask := func() (key, serial string) {
		t.Helper()
		must.Get(g.Status.GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.keys[len(s.keys)-1], s.serial
	}
	first, old := ask()
	now = now.Add(50 * time.Minute) // past two thirds of the lifetime
	key, renewed := ask()
	b := must.Get(identity.ReadBundle(w.Bundle))(t)
	if key != first || renewed == old || b.Kept == nil || w.Gateway.Renewals != 1 || asked != 1 {
		t.Errorf("renewed: the same key %v, another certificate %v, kept %v, %d renewals, asked %d times", key == first, renewed != old, b.Kept != nil, w.Gateway.Renewals, asked)
	}
	keep(5 * time.Hour)
	if keyOf(t, w.Bundle) == first {
		t.Fatal("the bundle has no other key")
	}
	if key, serial := ask(); key != first || serial != renewed || asked != 1 {
		t.Errorf("beside another key: %v, %v, asked %d times", key == first, serial == renewed, asked)
	}
	write(5 * time.Hour)
	if key, _ := ask(); key != keyOf(t, w.Bundle) {
		t.Error("a key that is a file again is not taken")
	}
}

// breakBundle makes a bundle unreadable until mend is called.
func breakBundle(t *testing.T, dir string) (mend func()) {
	t.Helper()
	path := filepath.Join(dir, identity.CredentialFile)
	text := must.Get(keyfile.Read(path))(t)
	must.Do(t, keyfile.Write(path, []byte("nothing")))
	return func() { must.Do(t, keyfile.Write(path, text)) }
}

// TestShellsAtOnce: of several commands with an old credential, one renews it and all succeed.
// While another process renews it, they use the old credential.
func TestShellsAtOnce(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Now = time.Now()
	w.WriteBundle(w.Now.Add(-5*time.Hour), w.Now.Add(time.Hour))
	lock := must.Get(os.OpenFile(filepath.Join(w.Bundle, ".lock"), os.O_RDWR|os.O_CREATE, 0o600))(t)
	must.Do(t, filelock.Try(lock))
	w.Want(w.Run("status"), 0)
	if w.Gateway.Renewals != 0 {
		t.Error("renewed beside another")
	}
	must.Do(t, filelock.Release(lock))
	must.Do(t, lock.Close())
	var group sync.WaitGroup
	for range 6 {
		group.Go(func() {
			if r := w.Run("status"); r.Code != 0 {
				t.Errorf("exit code %d: %s", r.Code, r.Err)
			}
		})
	}
	group.Wait()
	if w.Gateway.Renewals != 1 {
		t.Errorf("%d renewals", w.Gateway.Renewals)
	}
}

// TestRefusedCertificate: a command reports a refused certificate even if its connection was
// reset before it read the alert. Control: a gateway that accepts the certificate.
func TestRefusedCertificate(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		refuses bool
		want    string
	}{
		"refused": {true, "its device was revoked, or its member disabled or removed"}, "taken": {false, "Start the gateway"},
	} {
		t.Run(what, func(t *testing.T) {
			w := clitest.NewWorld(t)
			cfg := w.Server.TLS.Clone()
			cfg.NextProtos = []string{"h2"}
			l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
			t.Cleanup(func() { must.Do(t, l.Close()) })
			go func() {
				for n := 0; ; n++ {
					raw, err := l.Accept()
					if err != nil {
						return
					}
					if n > 0 && c.refuses {
						cfg.VerifyConnection = func(tls.ConnectionState) error { return errors.New("revoked") }
					}
					conn := tls.Server(raw, cfg)
					err = conn.HandshakeContext(t.Context())
					if n == 0 {
						_ = raw.(*net.TCPConn).SetLinger(0) // discards unread data
						_ = raw.Close()
						continue
					}
					if err == nil {
						_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
					}
					_ = conn.Close()
				}
			}()
			r := w.Run("--address", l.Addr().String(), "status")
			if w.Want(r, 6); !strings.Contains(r.Err, c.want) {
				t.Error(r.Err)
			}
		})
	}
}
