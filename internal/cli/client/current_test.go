package client_test

import (
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/canonical"
	"palyra/internal/cli/client"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/filelock"
	"palyra/internal/identity"
	"palyra/internal/identity/keyfile"
	"palyra/internal/must"
)

// shown records the keys that requests show.
type shown struct {
	mu   sync.Mutex
	keys []string
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
		s.mu.Unlock()
		next.ServeHTTP(rw, r)
	})
	return s
}

func keyOf(t *testing.T, dir string) string {
	t.Helper()
	return canonical.Digest(must.Get(identity.ReadBundle(dir))(t).Chain[0].RawSubjectPublicKeyInfo)
}

// TestRunningCommandTakesTheNewKey: a command that runs for long goes on with the key
// that another one, or palyrad, gave the bundle meanwhile, and renews one that grows
// old itself. What cannot be read is no reason to give up the one that works.
func TestRunningCommandTakesTheNewKey(t *testing.T) {
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
	now = now.Add(50 * time.Minute) // past two thirds
	third := ask()
	if third == second || third != keyOf(t, w.Bundle) || w.Gateway.Renewals != 1 {
		t.Errorf("the old key was not renewed: %d renewals", w.Gateway.Renewals)
	}
	if ask() != third || w.Gateway.Renewals != 1 {
		t.Errorf("renewed again: %d renewals", w.Gateway.Renewals)
	}
}

// breakBundle makes a bundle unreadable until mend.
func breakBundle(t *testing.T, dir string) (mend func()) {
	t.Helper()
	path := filepath.Join(dir, identity.CredentialFile)
	text := must.Get(keyfile.Read(path))(t)
	must.Do(t, keyfile.Write(path, []byte("nothing")))
	return func() { must.Do(t, keyfile.Write(path, text)) }
}

// TestShellsAtOnce: of several commands with a credential that grew old, one renews
// and all work. Beside one that is at it, they go on with the old.
func TestShellsAtOnce(t *testing.T) {
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
