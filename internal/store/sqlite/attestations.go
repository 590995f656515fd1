package sqlite

import (
	"bytes"
	"context"
	"fmt"

	"palyra/internal/call"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// storedAttestation returns the attestation row of an entry. The event of a completed call holds
// the whole envelope in its payload; the row then stores no envelope.
func storedAttestation(e call.Entry) *attest.Stored {
	a := e.Attestation
	if a == nil {
		return nil
	}
	row := attest.Stored{ID: a.Envelope.ID, ProposalID: a.ProposalID, CallDigest: a.CallDigest, Envelope: a.Envelope.JSON, SHA256: a.Envelope.SHA256}
	for _, d := range e.Drafts {
		if d.Code == event.Attested && d.Subject == a.ProposalID && holdsEnvelope(d.Payload, a.Envelope.JSON) {
			row.Envelope = []byte{}
		}
	}
	return &row
}

// holdsEnvelope reports whether a payload contains an envelope, byte for byte, as its member.
func holdsEnvelope(payload, envelope []byte) bool {
	const member = `"envelope":`
	at := bytes.Index(payload, []byte(member))
	return at >= 0 && len(envelope) > 0 && bytes.HasPrefix(payload[at+len(member):], envelope)
}

// putAttestation stores an attestation inside a unit that also emits its event. It returns
// reason.AlreadyExists for a second attestation of a call, or a repeated id.
func putAttestation(tx *Tx, a *attest.Stored) error {
	n, err := tx.Exec(`INSERT INTO attestations (id, proposal_id, call_digest, sha256, created_at, envelope)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO NOTHING`,
		a.ID, a.ProposalID, a.CallDigest, a.SHA256, tx.Now(), a.Envelope)
	if err != nil {
		return fmt.Errorf("storing attestation %s: %w", a.ID, err)
	}
	if n == 0 {
		return reason.Errorf(reason.AlreadyExists, "an attestation of proposal %s already exists", a.ProposalID)
	}
	return nil
}

// selectAttestation reads the payload of the event only for a row that has no envelope.
const selectAttestation = `SELECT a.*, (SELECT e.payload FROM events e WHERE e.seq = a.seq AND a.envelope = x'') FROM (SELECT
 a.n, a.id, a.proposal_id, a.call_digest, a.sha256, a.created_at, a.envelope,
 (SELECT min(e.seq) FROM events e WHERE e.subject <> '' AND e.subject IN (a.id, a.proposal_id) AND e.code = ?1) AS seq
 FROM attestations a %s) a`

func scanAttestation(r *Row) (attest.Stored, error) {
	a := attest.Stored{
		Position: r.Int64(0), ID: r.Text(1), ProposalID: r.Text(2), CallDigest: r.Text(3),
		SHA256: r.Text(4), CreatedAt: r.Time(5), Envelope: r.Bytes(6), Seq: r.Int64(7),
	}
	if len(a.Envelope) > 0 {
		return a, nil
	}
	payload, err := record.Decode(&journal.Event{Seq: a.Seq, Code: event.Attested, Subject: a.ProposalID, Payload: r.Bytes(8)})
	if err != nil {
		return a, fmt.Errorf("attestation %s: %w", a.ID, err)
	}
	attested, ok := payload.(*record.Attested)
	if !ok || attested.Signed().SHA256 != a.SHA256 {
		return a, reason.Errorf(reason.VerificationFailed, "event %d does not have the envelope of attestation %s", a.Seq, a.ID)
	}
	a.Envelope = attested.Envelope
	return a, nil
}

// Attestations is the attest.Store of the embedded store.
type Attestations struct{ db *DB }

var _ attest.Store = Attestations{}

// NewAttestations returns the attestations in db.
func NewAttestations(db *DB) Attestations { return Attestations{db} }

// Attestation returns the attestation with an id, or reason.NotFound.
func (s Attestations) Attestation(ctx context.Context, id string) (attest.Stored, error) {
	return s.attestation(ctx, "WHERE a.id = ?2", id, "attestation %s not found")
}

// AttestationByProposal returns the attestation of a call, or reason.NotFound.
func (s Attestations) AttestationByProposal(ctx context.Context, proposalID string) (attest.Stored, error) {
	return s.attestation(ctx, "WHERE a.proposal_id = ?2", proposalID, "proposal %s has no attestation")
}

func (s Attestations) attestation(ctx context.Context, where, id, none string) (a attest.Stored, err error) {
	var found bool
	err = s.db.Read(ctx, func(c *Conn) error {
		found, err = c.QueryRow(fmt.Sprintf(selectAttestation, where), func(r *Row) error {
			a, err = scanAttestation(r)
			return err
		}, event.Attested, id)
		return err
	})
	if err != nil {
		return attest.Stored{}, fmt.Errorf("reading attestation: %w", err)
	}
	if !found {
		return attest.Stored{}, reason.Errorf(reason.NotFound, none, id)
	}
	return a, nil
}

// maxAttestations is the longest page of Attestations.
const maxAttestations = 500

// Attestations returns a page of at most limit attestations before the position, newest first;
// 0 starts at the newest. The next page starts at the Position of the last attestation.
func (s Attestations) Attestations(ctx context.Context, before int64, limit int) ([]attest.Stored, error) {
	if limit <= 0 || limit > maxAttestations {
		limit = maxAttestations
	}
	return list(ctx, s.db, "listing attestations", scanAttestation,
		fmt.Sprintf(selectAttestation, "WHERE ?2 = 0 OR a.n < ?2 ORDER BY a.n DESC LIMIT ?3"), event.Attested, before, limit)
}
