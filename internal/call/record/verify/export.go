package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/progress"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/passkey"
)

// Pins are the keys that a verification trusts before it reads the export. Each has the name
// of its source for messages, such as "--key" or a file name. The zero value pins nothing.
type Pins struct {
	// Key is the verifier key that must have signed the journal.
	Key, KeyBy string
	// CARoot is the fingerprint of the gateway's CA.
	CARoot, CARootBy string
	// Set is a key set that the caller has checked; nil for none.
	Set   *attest.KeySet
	SetBy string
	// Signers are the keys that signed at an earlier verification.
	Signers   []journal.SigningKey
	SignersBy string
	// VouchedBy becomes KeyBy if the key set that the export names has the CA CARoot. It is "" if
	// CARoot does not vouch for that key set.
	VouchedBy string
	// Checkpoints come from earlier verifications; the journal must contain them.
	Checkpoints []journal.Checkpoint
}

// Counts counts the attestations and votes of an export.
type Counts struct {
	// Attestations counts the verified attestations, and NotCompared those among them whose call
	// began before the export. Erased counts the erased attestations, which were not verified.
	Attestations, NotCompared, Erased int
	// Passkeys counts votes with a passkey.
	Passkeys passkey.Log
}

// Export verifies a journal export: events and links, checkpoints, the seal, and each
// attestation against its key set and against the events of its call. It is for one use.
type Export struct {
	// Pins are the pins of NewExport. Verify adds the CA that the export names, and the source of
	// the key that signed.
	Pins
	Counts

	verifier *attest.Verifier
	calls    *Calls
	counted  *progress.Meter
	// contradiction is the first contradiction in the events.
	contradiction error
}

// NewExport returns a verification. counted counts the events that were read.
func NewExport(p Pins, counted *progress.Meter) *Export {
	return &Export{Pins: p, counted: counted}
}

// Verify reads an export to its end. It returns the errors of journal.VerifyExport; a
// contradiction between an attestation and the events is a *journal.CorruptError.
func (x *Export) Verify(r io.Reader) (journal.Summary, error) {
	sum, err := journal.VerifyExport(r, journal.ExportOptions{Key: x.Key, Trust: x.trust, Remembered: x.Checkpoints, Visit: x.visit})
	if err == nil {
		err = x.contradiction
	}
	return sum, err
}

// trust chooses the keys that may have signed the journal: the keys of the pinned key set, of
// an earlier verification, or of the pinned CA. Keys of the export itself come last; they prove
// only that it is whole.
func (x *Export) trust(header json.RawMessage, _ []string) (journal.Trust, error) {
	own, err := headerSet(header)
	if err != nil {
		return journal.Trust{}, err
	}
	switch {
	case x.Set != nil && len(x.Set.CheckpointKeys) > 0:
		x.KeyBy = x.SetBy
		return x.pinned(*x.Set, x.Set)
	case x.Key == "" && len(x.Signers) > 0:
		x.KeyBy = x.SignersBy
		return journal.Trust{Keys: x.Signers, Pinned: true, Admit: x.admit(own)}, nil
	case own == nil || len(own.CheckpointKeys) == 0 || x.Key != "":
		return journal.Trust{Admit: x.admit(own)}, nil
	}
	if x.VouchedBy != "" && own.Fingerprint() == x.CARoot {
		x.KeyBy = x.VouchedBy
	}
	return x.pinned(*own, own)
}

// headerSet returns the key set that an export names, or nil if it names none.
func headerSet(header json.RawMessage) (*attest.KeySet, error) {
	if len(header) == 0 || string(header) == "null" {
		return nil, nil //nolint:nilnil // the export has no key set
	}
	set, err := attest.ParseKeySet(header)
	return &set, err
}

// pinned returns the keys of a set after its certificates were verified.
func (x *Export) pinned(set attest.KeySet, root *attest.KeySet) (journal.Trust, error) {
	if _, err := attest.NewVerifier(set); err != nil {
		return journal.Trust{}, err
	}
	return journal.Trust{Keys: Signers(set), Pinned: x.KeyBy != "", Admit: x.admit(root)}, nil
}

// Signers are the checkpoint keys of a key set.
func Signers(set attest.KeySet) []journal.SigningKey {
	var list []journal.SigningKey
	for _, k := range set.CheckpointKeys {
		list = append(list, journal.SigningKey{Verifier: k.Verifier, First: k.FirstSize, Last: k.LastSize})
	}
	return list
}

// admit accepts a new key if the root certifies it: the pinned root, or the root that the
// export names if none is pinned.
func (x *Export) admit(set *attest.KeySet) func(journal.Rotation) error {
	return func(r journal.Rotation) error {
		switch {
		case set == nil:
			return errors.New("no CA certifies it")
		case x.CARoot != "" && set.Fingerprint() != x.CARoot:
			return fmt.Errorf("the key set has another CA than %s", x.CARootBy)
		}
		return set.CheckCheckpointKey(attest.CheckpointKey{Verifier: r.New, CertificateChain: r.Certificate, CertifiedAt: r.At})
	}
}

// visit verifies the key set of the header, and the attestation in each event that has one.
func (x *Export) visit(keys json.RawMessage, e *journal.Event) error {
	if e == nil {
		return x.start(keys)
	}
	x.counted.Add(1)
	if x.contradiction == nil {
		x.contradiction = x.examine(e)
	}
	return nil
}

// start chooses the key set for attestations: the pinned one, or the one of the export, which
// must lead to the pinned CA.
func (x *Export) start(keys json.RawMessage) error {
	set := x.Set
	if set == nil {
		own, err := headerSet(keys)
		if own == nil || err != nil {
			return err
		}
		set = own
	}
	if x.CARoot != "" && set.Fingerprint() != x.CARoot {
		return fmt.Errorf("the key set has the CA %s, not %s from %s", set.Fingerprint(), x.CARoot, x.CARootBy)
	}
	if x.CARoot == "" {
		x.CARoot, x.CARootBy = set.Fingerprint(), ""
	}
	verifier, err := attest.NewVerifier(*set)
	x.verifier = verifier
	return err
}

// examine compares an event with the events before it. Verify returns the error of examine only if
// the chain is whole: a broken chain is the more important finding.
func (x *Export) examine(e *journal.Event) error {
	if x.calls == nil {
		x.calls = New(e.Seq - 1)
		x.Passkeys.Whole, x.Passkeys.Gateway = e.Seq == 1, x.CARoot
	}
	if err := record.NotePasskey(&x.Passkeys, e); err != nil {
		return &journal.CorruptError{Seq: e.Seq, What: "its passkey data: " + err.Error()}
	}
	if e.Code != event.Attested {
		return x.calls.Note(e)
	}
	defer func() { _ = x.calls.Note(e) }() // it ends the call
	if e.Erased() {
		x.Erased++
		return nil
	}
	return x.attestation(e)
}

// attestation verifies the attestation in an event, and compares it with its call.
func (x *Export) attestation(e *journal.Event) error {
	decoded, err := record.Decode(e)
	payload, ok := decoded.(*record.Attested)
	if err != nil || !ok {
		return badAttestation(e.Seq, fmt.Sprintf("it is malformed: %v", err))
	}
	if x.verifier == nil {
		return badAttestation(e.Seq, "no key set is available to verify it")
	}
	got, err := x.verifier.Verify(payload.Envelope)
	if err != nil {
		return badAttestation(e.Seq, err.Error())
	}
	if got.Predicate.AttestationID != payload.AttestationID || got.Predicate.Invocation.ProposalID != payload.ProposalID {
		return badAttestation(e.Seq, "it belongs to another call, proposal "+got.Predicate.Invocation.ProposalID)
	}
	why, compared := x.calls.Check(e, got.Predicate, payload)
	if why != "" {
		return badAttestation(e.Seq, payload.AttestationID+" contradicts the journal: "+why)
	}
	if !compared {
		x.NotCompared++
	}
	x.Attestations++
	return nil
}

func badAttestation(seq int64, what string) error {
	return &journal.CorruptError{Seq: seq, What: "its attestation: " + what}
}
