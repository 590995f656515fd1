package journal_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/evidence/journal"
)

// rotatedAt is five years after the latest end of any test's certificate.
var rotatedAt = time.Date(2031, 3, 1, 0, 0, 0, 0, time.UTC)

// rotated returns a journal whose key was replaced once: 4 events and a checkpoint by key 1,
// the rotation as event 6, and the same number of events by key 2.
func rotated(t testing.TB) (*memStore, *journal.Log, journal.Rotation) {
	t.Helper()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	fill(t, log, 4)
	r := must.Get(log.Checkpoints.Rotate(t.Context(), testKey(t, 2), "a certificate", rotatedAt))(t)
	fill(t, log, 3)
	checkpoint(t, log)
	fill(t, log, 2)
	return s, log, r
}

func TestRotation(t *testing.T) {
	t.Parallel()
	_, log, r := rotated(t)
	old, next := testKey(t, 1).Verifier(), testKey(t, 2).Verifier()
	if want := (journal.Rotation{Old: old, New: next, Last: 5, At: rotatedAt, Certificate: "a certificate"}); r != want {
		t.Errorf("rotation %+v\nwant %+v", r, want)
	}
	if got := log.Checkpoints.Keys(); !slices.Equal(got, []string{next, old}) {
		t.Errorf("keys %v", got)
	}
	sum, err := log.VerifyFull(t.Context())
	if err != nil || sum.Checkpoints != 2 || sum.Rotations != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
	p := must.Get(log.Prove(t.Context(), 2))(t)
	known := must.Get(journal.NewSigners(journal.SigningKey{Verifier: next, First: 6}, journal.SigningKey{Verifier: old, Last: 5}))(t)
	must.Check(t, journal.VerifyProof(p, gateway, known))
	must.Get(log.Checkpoints.Rotate(t.Context(), testKey(t, 3), "", rotatedAt))(t)
	if sum, err := log.VerifyFull(t.Context()); err != nil || sum.Rotations != 2 {
		t.Errorf("after the second rotation: %+v, %v", sum, err)
	}
}

// A reopened journal restores its keys from the stored key list.
func TestRotatedJournalIsOpenedAgain(t *testing.T) {
	t.Parallel()
	s, _, r := rotated(t)
	open := func(keys ...journal.SigningKey) (*journal.Log, error) {
		return journal.New(s, journal.Options{Key: testKey(t, 2), Keys: keys})
	}
	next, old := journal.SigningKey{Verifier: r.New, First: r.Last + 1}, journal.SigningKey{Verifier: r.Old, Last: r.Last}
	log := must.Get(open(next, old))(t)
	if _, err := log.VerifyFull(t.Context()); err != nil {
		t.Error(err)
	}
	last, ok, err := journal.LastRotation(t.Context(), s, gateway)
	if err != nil || !ok || last != r {
		t.Errorf("the last rotation is %+v, %v, %v", last, ok, err)
	}
	// A key list that contradicts the journal is refused.
	for name, keys := range map[string][]journal.SigningKey{
		"old key with fewer sizes":  {next, {Verifier: r.Old, Last: 4}},
		"old key with more sizes":   {next, {Verifier: r.Old, Last: 6}},
		"new key from another size": {{Verifier: r.New, First: 5}, old},
		"new key from the start":    {{Verifier: r.New}, old},
		"no old key":                {next},
	} {
		log, err := open(keys...)
		if err == nil {
			_, err = log.VerifyFull(t.Context())
		}
		if err == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
	if _, err := open(old, next); err == nil {
		t.Error("a log signs with a key that is not the first")
	}
}

// trusting returns ExportOptions with pinned keys.
func trusting(keys ...journal.SigningKey) journal.ExportOptions {
	return journal.ExportOptions{Trust: func(json.RawMessage, []string) (journal.Trust, error) {
		return journal.Trust{Keys: keys, Pinned: true}, nil
	}}
}

func TestExportAcrossRotation(t *testing.T) {
	t.Parallel()
	_, log, r := rotated(t)
	whole, rest := export(t, log, 0), export(t, log, 7)
	next, old := journal.SigningKey{Verifier: r.New, First: r.Last + 1}, journal.SigningKey{Verifier: r.Old, Last: r.Last}
	refuse := trusting(journal.SigningKey{Verifier: r.Old})
	refuse.Trust = func(json.RawMessage, []string) (journal.Trust, error) {
		return journal.Trust{Keys: []journal.SigningKey{{Verifier: r.Old}}, Admit: func(got journal.Rotation) error {
			if got != r {
				t.Errorf("admit is asked about %+v", got)
			}
			return errors.New("no certificate")
		}}, nil
	}
	for _, c := range []struct {
		name string
		text []byte
		opts journal.ExportOptions
		want string // part of the error; "" verifies
	}{
		{"nothing known", whole, journal.ExportOptions{}, ""},
		{"both keys known", whole, trusting(next, old), ""},
		{"the old key known: it hands over", whole, trusting(journal.SigningKey{Verifier: r.Old}), ""},
		{"the old key known, and the new one has no certificate", whole, refuse, "is not one of this gateway: no certificate"},
		{"the new key known alone", whole, trusting(next), "line 6: journal is damaged at sequence number 5"},
		{"the rest, both keys known", rest, trusting(next, old), ""},
		{"the rest, the old key known", rest, trusting(journal.SigningKey{Verifier: r.Old}), "signature"},
		{"another key known", whole, trusting(journal.SigningKey{Verifier: testKey(t, 7).Verifier()}), "it is signed by the key " + r.New},
		{"the new key pinned", whole, journal.ExportOptions{Key: r.New}, ""},
		{"the old key pinned", whole, journal.ExportOptions{Key: r.Old}, "not by the expected"},
		{"the old key ended earlier", whole, trusting(next, journal.SigningKey{Verifier: r.Old, Last: 3}), "no more than 3"},
		{"the new key began later", whole, trusting(journal.SigningKey{Verifier: r.New, First: 9}, old), "from 6 events on, the key set from 9"},
	} {
		_, err := verifyBytes(c.text, c.opts)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	var unknown *journal.UnknownKeyError
	if _, err := verifyBytes(whole, trusting(journal.SigningKey{Verifier: testKey(t, 7).Verifier()})); !errors.As(err, &unknown) {
		t.Errorf("%v is no UnknownKeyError", err)
	}
}

// A signature of a replaced key is refused, whoever has the key now.
func TestReplacedKeySignsNoMore(t *testing.T) {
	t.Parallel()
	s, log, r := rotated(t)
	if _, err := log.VerifyFull(t.Context()); err != nil {
		t.Fatal(err) // control
	}
	thief, err := journal.New(s, journal.Options{
		Key: testKey(t, 1), Keys: []journal.SigningKey{{Verifier: r.Old}, {Verifier: r.New}},
	})
	must.Do(t, err)
	fill(t, thief, 1)
	checkpoint(t, thief) // signed with the old key, over 13 events
	_, err = log.VerifyFull(t.Context())
	assertCorrupt(t, err, 14)
	if !strings.Contains(err.Error(), "signed for no more than 5") {
		t.Error(err)
	}
	// The thief seals an export, which is verified with and without the known keys.
	forged := export(t, thief, 0)
	for name, opts := range map[string]journal.ExportOptions{
		"both keys known":    trusting(journal.SigningKey{Verifier: r.New, First: 6}, journal.SigningKey{Verifier: r.Old, Last: 5}),
		"the old key known":  trusting(journal.SigningKey{Verifier: r.Old}),
		"the old key pinned": {Key: r.Old},
	} {
		if _, err := verifyBytes(forged, opts); err == nil {
			t.Errorf("%s: the export of a thief verifies", name)
		}
	}
}

// These are rotations that only a thief of one key would write.
func TestForgedRotations(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(text string) (string, []note.Signer){
		"signed by the old key alone": func(x string) (string, []note.Signer) { return x, []note.Signer{testKey(t, 1)} },
		"signed by the new key alone": func(x string) (string, []note.Signer) { return x, []note.Signer{testKey(t, 2)} },
		"signed by a third key":       func(x string) (string, []note.Signer) { return x, []note.Signer{testKey(t, 3), testKey(t, 2)} },
		"in the other order":          func(x string) (string, []note.Signer) { return x, []note.Signer{testKey(t, 2), testKey(t, 1)} },
		"another last size": func(x string) (string, []note.Signer) {
			return strings.Replace(x, "\n5\n", "\n3\n", 1), []note.Signer{testKey(t, 1), testKey(t, 2)}
		},
		"a last size to come": func(x string) (string, []note.Signer) {
			return strings.Replace(x, "\n5\n", "\n500\n", 1), []note.Signer{testKey(t, 1), testKey(t, 2)}
		},
		"another certificate": func(x string) (string, []note.Signer) {
			lines := strings.Split(x, "\n")
			lines[6] = strings.Repeat("0", 64)
			return strings.Join(lines, "\n"), []note.Signer{testKey(t, 1), testKey(t, 2)}
		},
		"another gateway": func(x string) (string, []note.Signer) {
			return strings.Replace(x, "\n"+gateway+"\n", "\nother.test\n", 1), []note.Signer{testKey(t, 1), testKey(t, 2)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, r := rotated(t)
			var p struct {
				Certificate string `json:"certificate_chain"`
				Note        string `json:"note"`
			}
			if err := json.Unmarshal(s.events[5].Payload, &p); err != nil || s.events[5].Code != event.KeyRotated {
				t.Fatal(s.events[5].Code, err)
			}
			text, _, _ := strings.Cut(p.Note, "\n\n")
			text, signers := change(text + "\n")
			signed, err := note.Sign(&note.Note{Text: text}, signers...)
			must.Do(t, err)
			p.Note = string(signed)
			s.events[5].Payload = must.Get(canonical.Marshal(p))(t)
			s.events = s.events[:7] // no checkpoint covers it, so only the signatures can detect it
			forge(s.events, 5)
			s.Publish(s.events[6].Head(), nil)
			known := must.Get(journal.NewSigners(journal.SigningKey{Verifier: r.New, First: 6}, journal.SigningKey{Verifier: r.Old, Last: 5}))(t)
			_, err = journal.VerifyAll(t.Context(), s, gateway, known)
			assertCorrupt(t, err, 6)
		})
	}
}

// A new key is refused if its rotation was removed from the journal.
func TestKeyWithoutItsRotation(t *testing.T) {
	t.Parallel()
	s, _, r := rotated(t)
	known, err := journal.NewSigners(journal.SigningKey{Verifier: r.New, First: 6}, journal.SigningKey{Verifier: r.Old, Last: 5})
	must.Do(t, err)
	whole := slices.Clone(s.events)
	s.events[5].Code, s.events[5].Payload = event.Opened, []byte(`{}`)
	s.events = s.events[:10]
	forge(s.events, 5)
	cp := must.Get(journal.SignCheckpoint(testKey(t, 2), 9, referenceRoot(s.events[:9])))(t)
	s.events[9].Payload = must.Get(canonical.Marshal(map[string]any{"note": cp.Note, "root": hex.EncodeToString(cp.Root[:]), "size": cp.Size}))(t)
	forge(s.events, 9)
	s.Publish(s.events[9].Head(), nil)
	_, err = journal.VerifyAll(t.Context(), s, gateway, known)
	assertCorrupt(t, err, 10)
	if !strings.Contains(err.Error(), "no event before it says that this key took over") {
		t.Error(err)
	}
	s.events = whole
	s.Publish(s.events[len(whole)-1].Head(), nil)
	if _, err := journal.VerifyAll(t.Context(), s, gateway, known); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// An export that starts before a rotation and is sealed after it verifies.
func TestRotationDuringExport(t *testing.T) {
	t.Parallel()
	s := newMemStore(testClock())
	log := newLog(t, s, 1)
	fill(t, log, 1000)
	var out bytes.Buffer
	w := &interrupted{w: &out, do: func() {
		if _, err := log.Checkpoints.Rotate(t.Context(), testKey(t, 2), "", rotatedAt); err != nil {
			t.Error(err)
		}
	}}
	must.Do(t, log.Export(t.Context(), w, 0, nil))
	known := trusting(journal.SigningKey{Verifier: testKey(t, 2).Verifier(), First: 1002}, journal.SigningKey{Verifier: testKey(t, 1).Verifier(), Last: 1001})
	if sum, err := verifyBytes(out.Bytes(), known); err != nil || sum.Last != 1000 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// interrupted calls a function once, at the first write.
type interrupted struct {
	w  *bytes.Buffer
	do func()
}

func (i *interrupted) Write(p []byte) (int, error) {
	if i.do != nil {
		i.do()
		i.do = nil
	}
	return i.w.Write(p)
}
