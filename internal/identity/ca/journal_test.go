package ca

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"palyra/internal/core/must"
)

func onlyJournalKey(t *testing.T, a *Authority) JournalKey {
	t.Helper()
	keys := a.Journal.Keys()
	if len(keys) != 1 {
		t.Fatalf("%d checkpoint keys", len(keys))
	}
	return keys[0]
}

// certifiedFor checks that this authority issued a key's certificate for this key, and that it
// was valid when the key was created.
func certifiedFor(t *testing.T, a *Authority, k JournalKey) {
	t.Helper()
	pub := must.Get(journalPublic(k.Verifier))(t)
	if len(k.Chain) != 2 || !pub.Equal(k.Chain[0].PublicKey) || k.Chain[0].URIs[0].String() != "spiffe://palyra.local/journal/1" {
		t.Fatalf("certificate %+v", k.Chain)
	}
	must.Check(t, errors.Join(k.Chain[0].CheckSignatureFrom(k.Chain[1]), k.Chain[1].CheckSignatureFrom(a.Root())))
	if k.CertifiedAt.Before(k.Chain[0].NotBefore) || k.CertifiedAt.After(k.Chain[0].NotAfter) {
		t.Errorf("certified at %s, valid from %s to %s", k.CertifiedAt, k.Chain[0].NotBefore, k.Chain[0].NotAfter)
	}
}

// Opening a state directory of an older release, which has a checkpoint key without a
// certificate, creates the certificate once.
func TestExistingJournalKeyIsCertified(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	certifiedFor(t, a, onlyJournalKey(t, a))
	must.Do(t, os.Remove(filepath.Join(a.keys.dir, journalKeysFile)))
	if bare, err := Inspect(a.keys.dir, Options{Now: c.Now}); err != nil || len(onlyJournalKey(t, bare).Chain) != 0 {
		t.Errorf("looking at it certified the key, or failed: %v", err)
	}
	b := open(t, a.keys.dir, Options{Now: c.Now})
	k := onlyJournalKey(t, b)
	certifiedFor(t, b, k)
	if k.Verifier != onlyJournalKey(t, a).Verifier || k.First != 0 || k.Last != 0 {
		t.Errorf("another key, or not for all sizes: %+v", k)
	}
	c.Add(5 * 365 * 24 * time.Hour)
	again := onlyJournalKey(t, open(t, a.keys.dir, Options{Now: c.Now}))
	if !again.Chain[0].Equal(k.Chain[0]) || !again.CertifiedAt.Equal(k.CertifiedAt) {
		t.Error("the key was certified again")
	}
}

// A crash at any write of a rotation loses no key, and a repetition completes the rotation.
func TestJournalRotationSurvivesACrash(t *testing.T) {
	t.Parallel()
	for name, undo := range map[string]func(a *Authority) error{
		"nothing was written": func(a *Authority) error {
			return errors.Join(os.Remove(filepath.Join(a.keys.dir, journalKeysFile)), writeJournalKeys(a.keys.dir, a.Journal.known))
		},
		"the list was written": func(a *Authority) error {
			next, err := a.Journal.next.Key.key()
			next.First = 8
			old := a.Journal.known[0]
			old.Last = 7
			return errors.Join(err, writeJournalKeys(a.keys.dir, []JournalKey{next, old}))
		},
		"all but the end was written": func(a *Authority) error {
			next := a.Journal.next
			return errors.Join(a.Journal.Adopt(7), writeJSON(filepath.Join(a.keys.dir, journalNextFile), next))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, c := newAuthorityAt(t)
			old := onlyJournalKey(t, a)
			_, next, err := a.Journal.Next()
			must.Do(t, err)
			must.Do(t, undo(a))
			b := open(t, a.keys.dir, Options{Now: c.Now})
			if b.Journal.Pending() != next.Verifier {
				t.Fatalf("pending is %q", b.Journal.Pending())
			}
			must.Do(t, b.Journal.Adopt(7))
			d := open(t, a.keys.dir, Options{Now: c.Now})
			keys := d.Journal.Keys()
			if len(keys) != 2 || keys[0].Verifier != next.Verifier || keys[0].First != 8 || keys[0].Last != 0 ||
				keys[1].Verifier != old.Verifier || keys[1].First != 0 || keys[1].Last != 7 || d.Journal.Pending() != "" {
				t.Errorf("keys %+v, pending %q", keys, d.Journal.Pending())
			}
			certifiedFor(t, d, keys[0])
			certifiedFor(t, d, keys[1])
		})
	}
}

func TestJournalKeyIsDropped(t *testing.T) {
	t.Parallel()
	a, c := newAuthorityAt(t)
	old := onlyJournalKey(t, a)
	if err := a.Journal.Adopt(1); err == nil {
		t.Error("a key that is not there took over")
	}
	if _, _, err := a.Journal.Next(); err != nil {
		t.Fatal(err)
	}
	must.Do(t, a.Journal.Drop())
	if _, err := os.Stat(filepath.Join(a.keys.dir, journalNextFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the secret of the dropped key is still there: %v", err)
	}
	b := open(t, a.keys.dir, Options{Now: c.Now})
	if b.Journal.Pending() != "" || onlyJournalKey(t, b).Verifier != old.Verifier {
		t.Error("the dropped key is in use")
	}
}
