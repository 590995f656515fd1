package witness

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// Status asks a gateway how it is, and proves by the same answer that its journal goes
// on from the newest checkpoint that was seen of it. What does not fit is doubt: the
// status is what the gateway says all the same.
func Status(ctx context.Context, a *client.App, g *client.Gateway) (s *palyrav1.GetStatusResponse, doubt, err error) {
	m, seen, before, doubt := recalled(a, g)
	if s, err = g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{KnownJournalSize: before.Size}); err != nil {
		return nil, nil, err
	}
	hashes := s.GetConsistency()
	s.Consistency = nil // proven here, and of no use to a reader
	switch {
	case doubt != nil || g.Root == nil:
	case seen:
		doubt = m.goesOn(ctx, a, g, before, s, hashes)
	case s.GetCheckpoint() != "" && !strings.HasPrefix(s.GetCaller().GetPrincipal(), "agent:"): // which may not ask for keys
		begin(ctx, a, g, s.GetCheckpoint())
	}
	return s, doubt, nil
}

func recalled(a *client.App, g *client.Gateway) (m Memory, seen bool, before journal.Checkpoint, err error) {
	if g.Root == nil {
		return m, false, before, nil // whose gateway it is is not known
	}
	if m, err = Recall(a, Fingerprint(g.Root)); err != nil {
		return m, false, before, err
	}
	before, seen, err = m.Checkpoint()
	return m, seen, before, err
}

// begin remembers a gateway that was not seen before. Who may not ask for its keys
// remembers nothing.
func begin(ctx context.Context, a *client.App, g *client.Gateway, text string) {
	set, err := KeySet(ctx, g)
	if err != nil {
		return
	}
	if _, err := attest.NewVerifier(set); err != nil || len(set.CheckpointKeys) == 0 {
		return
	}
	m := Memory{CARoot: Fingerprint(g.Root), Keys: SetKeys(set), VerifierKey: set.CheckpointKeys[0].Verifier, Note: text}
	cp, err := journal.ParseUnverified(text)
	if err != nil {
		return
	}
	m.Gateway = cp.Origin
	if _, _, err := m.Checkpoint(); err == nil {
		m.keep(a)
	}
}

// keep remembers, and says when that does not work: it is no reason to show nothing.
func (m Memory) keep(a *client.App) {
	if err := Remember(a, m); err != nil {
		a.Say("the newest checkpoint of the gateway could not be remembered: %v", err)
	}
}

// goesOn proves that the checkpoint in a status extends the one that was seen, and
// remembers it then.
func (m Memory) goesOn(ctx context.Context, a *client.App, g *client.Gateway, before journal.Checkpoint, s *palyrav1.GetStatusResponse, texts []string) error {
	if s.GetCheckpoint() == "" {
		if s.GetJournalSize() < before.Size {
			return RolledBack(before, s.GetJournalSize())
		}
		return nil // a gateway of before there was a proof in the status
	}
	now, err := m.open(ctx, a, g, s.GetCheckpoint())
	if err != nil {
		return err
	}
	if now.Size < before.Size {
		return RolledBack(before, s.GetJournalSize())
	}
	hashes, err := ParseHashes(texts)
	if err != nil {
		return err
	}
	if err := journal.VerifyConsistency(before, now, hashes); err != nil {
		return Forked(err)
	}
	if now.Size > before.Size {
		m.Note = now.Note
		m.keep(a)
	}
	return nil
}

// open verifies a checkpoint of a remembered gateway. Its keys are asked for anew when
// the one that signed is not known: it may have been replaced.
func (m *Memory) open(ctx context.Context, a *client.App, g *client.Gateway, text string) (journal.Checkpoint, error) {
	known, err := journal.NewSigners(m.Signing()...)
	if err != nil {
		return journal.Checkpoint{}, err
	}
	cp, err := journal.ParseCheckpoint(text, m.Gateway, known)
	if err == nil {
		return cp, nil
	}
	said, unread := journal.ParseUnverified(text)
	if unread != nil {
		return cp, reason.Errorf(reason.VerificationFailed, "the gateway's checkpoint: %w", unread)
	}
	var unknown *note.UnverifiedNoteError
	if !errors.As(err, &unknown) {
		return cp, reason.Errorf(reason.VerificationFailed, "the gateway's checkpoint: %w", err)
	}
	keys, err := ProvenKeys(ctx, a, g, *m, said, "another one")
	if err != nil {
		return cp, err
	}
	if keys != nil {
		m.Keys, m.VerifierKey = keys, keys[0].Verifier
	}
	return said, nil
}

// whatNow is what to do when a journal does not go on from what was seen of it.
const whatNow = "If the gateway was restored from a backup, `palyra journal accept-restore` shows what was lost and accepts it. If it was not, two copies of it run, or somebody put an older state in its place: change nothing, and ask the operator."

// RolledBack is the error for a journal that has fewer events than a checkpoint that
// was seen.
func RolledBack(before journal.Checkpoint, size int64) error {
	return reason.Errorf(reason.VerificationFailed, "the journal was rolled back: it has %s, and a signed checkpoint over %d was seen before", text.Plural(size, "event"), before.Size).
		WithRemedy(whatNow)
}

// Forked is the error for a journal that does not extend a checkpoint that was seen.
func Forked(err error) error {
	return reason.Errorf(reason.VerificationFailed, "the journal is not the one that was seen before: %w", err).WithRemedy(whatNow)
}

// KeySet asks for the gateway's key set and holds its root against the credential
// bundle.
func KeySet(ctx context.Context, g *client.Gateway) (attest.KeySet, error) {
	reply, err := g.Attestations.GetKeySet(ctx, &palyrav1.GetKeySetRequest{})
	if err != nil {
		return attest.KeySet{}, err
	}
	set, err := attest.ParseKeySet(reply.GetKeySetJson())
	if err != nil {
		return set, err
	}
	if set.Fingerprint() != Fingerprint(g.Root) {
		return set, reason.Errorf(reason.VerificationFailed, "the key set leads to another CA than your credential bundle").
			WithField("key set", set.Fingerprint()).WithField("bundle", Fingerprint(g.Root))
	}
	return set, nil
}

// SetKeys are the checkpoint keys of a key set.
func SetKeys(set attest.KeySet) []journal.SigningKey {
	var list []journal.SigningKey
	for _, k := range set.CheckpointKeys {
		list = append(list, journal.SigningKey{Verifier: k.Verifier, First: k.FirstSize, Last: k.LastSize})
	}
	return list
}

// ProvenKeys holds the key that signed against the gateway's key set, which
// leads to the CA of the bundle, and the key set against what is remembered. It
// returns nil for an older gateway, whose set names none.
func ProvenKeys(ctx context.Context, a *client.App, g *client.Gateway, m Memory, cp journal.Checkpoint, key string) ([]journal.SigningKey, error) {
	set, err := KeySet(ctx, g)
	if err != nil {
		return nil, err
	}
	if _, err := attest.NewVerifier(set); err != nil {
		return nil, err
	}
	keys, named := SetKeys(set), len(set.CheckpointKeys) > 0
	if !named {
		keys = []journal.SigningKey{{Verifier: key}}
	}
	if !m.Continues(keys) {
		path, _ := Path(a, m.CARoot)
		return nil, KeyChanged(m, path, key)
	}
	known, err := journal.NewSigners(keys...)
	if err != nil {
		return nil, err
	}
	if _, err := journal.ParseCheckpoint(cp.Note, cp.Origin, known); err != nil {
		return nil, reason.Errorf(reason.VerificationFailed, "the gateway's key set does not have the key that signed: %w", err).
			WithField("key", key)
	}
	if !named {
		return nil, nil
	}
	return keys, nil
}

// Fingerprint names a CA by its root certificate.
func Fingerprint(root *x509.Certificate) string {
	if root == nil {
		return "unknown" // and so no key set is of it
	}
	return canonical.Digest(root.Raw)
}

// ParseHash reads a hash in hex.
func ParseHash(text string) (tlog.Hash, error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 32 {
		return tlog.Hash{}, fmt.Errorf("%q is not 64 hex digits", text)
	}
	return tlog.Hash(raw), nil
}

// ParseHashes reads the hashes of a proof.
func ParseHashes(texts []string) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for _, text := range texts {
		h, err := ParseHash(text)
		if err != nil {
			return nil, reason.Errorf(reason.VerificationFailed, "%w", err)
		}
		out = append(out, h)
	}
	return out, nil
}

// Inclusion is where an event is in the signed journal, as it was proven.
type Inclusion struct {
	Seq  int64  `json:"seq"`
	Code string `json:"code"`
	// Hash and Root are hex; Root is that of the checkpoint over Size events.
	Hash    string `json:"hash"`
	Gateway string `json:"gateway"`
	Size    int64  `json:"tree_size"`
	Root    string `json:"root"`
	// Key is the verifier key that signed the checkpoint.
	Key string `json:"verifier_key"`
	// Event is what is there.
	Event journal.Event `json:"-"`
}
