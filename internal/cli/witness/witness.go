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
	"palyra/internal/call/record/verify"
	"palyra/internal/cli/client"
	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// Status returns the status of a gateway, and proves with the same response that its journal
// extends the newest stored checkpoint. doubt is the error of that proof; the status is returned
// nevertheless.
func Status(ctx context.Context, a *client.App, g *client.Gateway) (s *palyrav1.GetStatusResponse, doubt, err error) {
	m, seen, before, doubt := recalled(a, g)
	if s, err = g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{KnownJournalSize: before.Size}); err != nil {
		return nil, nil, err
	}
	hashes := s.GetConsistency()
	s.Consistency = nil // already proven, and not useful for display
	switch {
	case doubt != nil || g.Root == nil:
	case seen:
		doubt = m.goesOn(ctx, a, g, before, s, hashes)
	case s.GetCheckpoint() != "" && !strings.HasPrefix(s.GetCaller().GetPrincipal(), "agent:"): // agents may not query the keys
		begin(ctx, a, g, s.GetCheckpoint())
	}
	return s, doubt, nil
}

func recalled(a *client.App, g *client.Gateway) (m Memory, seen bool, before journal.Checkpoint, err error) {
	if g.Root == nil {
		return m, false, before, nil // the gateway is not identified
	}
	if m, err = Recall(a, Fingerprint(g.Root)); err != nil {
		return m, false, before, err
	}
	before, seen, err = m.Checkpoint()
	return m, seen, before, err
}

// begin stores the state of a new gateway. Callers that may not query its keys store nothing.
func begin(ctx context.Context, a *client.App, g *client.Gateway, text string) {
	set, err := KeySet(ctx, g)
	if err != nil {
		return
	}
	if _, err := attest.NewVerifier(set); err != nil || len(set.CheckpointKeys) == 0 {
		return
	}
	m := Memory{CARoot: Fingerprint(g.Root), Keys: verify.Signers(set), VerifierKey: set.CheckpointKeys[0].Verifier, Note: text}
	cp, err := journal.ParseUnverified(text)
	if err != nil {
		return
	}
	m.Gateway = cp.Origin
	if _, _, err := m.Checkpoint(); err == nil {
		m.keep(a)
	}
}

// keep stores the state, and reports a failure, which does not end the command.
func (m Memory) keep(a *client.App) {
	if err := Remember(a, m); err != nil {
		a.Say("the newest checkpoint of the gateway could not be remembered: %v", err)
	}
}

// goesOn proves that the checkpoint in a status extends the stored one, and then stores it.
func (m Memory) goesOn(ctx context.Context, a *client.App, g *client.Gateway, before journal.Checkpoint, s *palyrav1.GetStatusResponse, texts []string) error {
	if s.GetCheckpoint() == "" {
		if s.GetJournalSize() < before.Size {
			return RolledBack(before, s.GetJournalSize())
		}
		return nil // an older gateway without a proof in the status
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

// open verifies a checkpoint of a known gateway. If its signing key is unknown, the keys are
// queried again, because it may have been replaced.
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

// whatNow is the remedy for a journal that does not extend the known one.
const whatNow = "If the gateway was restored from a backup, `palyra journal accept-restore` shows the loss and accepts it. If it was not, two copies of it run, or an older state was restored: change nothing, and ask the operator."

// RolledBack returns the error of a journal with fewer events than a known checkpoint.
func RolledBack(before journal.Checkpoint, size int64) error {
	return reason.Errorf(reason.VerificationFailed, "the journal was rolled back: it has %s, and a signed checkpoint over %d was seen before", text.Plural(size, "event"), before.Size).
		WithRemedy(whatNow)
}

// Forked returns the error of a journal that does not extend a known checkpoint.
func Forked(err error) error {
	return reason.Errorf(reason.VerificationFailed, "the journal is not the one that was seen before: %w", err).WithRemedy(whatNow)
}

// KeySet fetches the gateway's key set and compares its CA root with the credential bundle.
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

// ProvenKeys verifies the signing key against the gateway's key set, which chains to the CA of the
// bundle, and the key set against the stored keys. It returns nil for an older gateway, whose set
// has no such keys.
func ProvenKeys(ctx context.Context, a *client.App, g *client.Gateway, m Memory, cp journal.Checkpoint, key string) ([]journal.SigningKey, error) {
	set, err := KeySet(ctx, g)
	if err != nil {
		return nil, err
	}
	if _, err := attest.NewVerifier(set); err != nil {
		return nil, err
	}
	keys, named := verify.Signers(set), len(set.CheckpointKeys) > 0
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

// Fingerprint returns the fingerprint of a CA: the digest of its root certificate.
func Fingerprint(root *x509.Certificate) string {
	if root == nil {
		return "unknown" // no key set matches it
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

// Inclusion is the proven position of an event in the signed journal.
type Inclusion struct {
	Seq  int64  `json:"seq"`
	Code string `json:"code"`
	// Hash and Root are hex; Root is the root of the checkpoint over Size events.
	Hash    string `json:"hash"`
	Gateway string `json:"gateway"`
	Size    int64  `json:"tree_size"`
	Root    string `json:"root"`
	// Key is the verifier key that signed the checkpoint.
	Key string `json:"verifier_key"`
	// Event is the proven event.
	Event journal.Event `json:"-"`
}
