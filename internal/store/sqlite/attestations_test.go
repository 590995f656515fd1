package sqlite_test

import (
	"bytes"
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/calltest"
	callrecord "palyra/internal/call/record"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

func TestAttestations(t *testing.T) {
	t.Parallel()
	calltest.RunAttestations(t, func(t *testing.T) calltest.Archive {
		db := sqlitetest.Open(t)
		return struct {
			call.Ledger
			attest.Store
		}{sqlite.NewCalls(db), sqlite.NewAttestations(db)}
	})
}

// The envelope of a call is stored only in its event.
func TestEnvelopeIsReadFromItsEvent(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	envelope := []byte(`{"payload":"aGVsbG8=","payloadType":"text/plain"}`)
	signed := (&callrecord.Attested{AttestationID: "att", ProposalID: "a", DecisionID: "d-a", Envelope: envelope}).Signed()
	record(t, calls, call.Entry{Drafts: []event.Draft{decided(t, "a", true)}})
	attested := callEvent(t, event.Attested, "a", "run-a", callrecord.Attested{AttestationID: "att", ProposalID: "a", DecisionID: "d-a", Envelope: envelope})
	seq := record(t, calls, call.Entry{
		Drafts:      []event.Draft{attested},
		Attestation: &call.StoredAttestation{Envelope: signed, ProposalID: "a", CallDigest: canonical.Digest(nil)},
	})
	assertCount(t, db, "SELECT count(*) FROM attestations WHERE length(envelope) > 0", 0)
	for name, read := range map[string]func() (attest.Stored, error){
		"by id": func() (attest.Stored, error) { return sqlite.NewAttestations(db).Attestation(t.Context(), "att") },
		"by proposal": func() (attest.Stored, error) {
			return sqlite.NewAttestations(db).AttestationByProposal(t.Context(), "a")
		},
		"listed": func() (attest.Stored, error) {
			list, err := sqlite.NewAttestations(db).Attestations(t.Context(), 0, 10)
			return append(list, attest.Stored{})[0], err
		},
	} {
		if got := must.Get(read())(t); !bytes.Equal(got.Envelope, envelope) || got.Seq != seq || got.SHA256 != signed.SHA256 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// The event now contains a different envelope than the signed one.
	must.Do(t, sqlite.Exec(db, "UPDATE events SET payload = CAST(replace(payload, 'aGVsbG8=', 'aGVsbG9v') AS BLOB) WHERE seq = ?1", seq))
	if _, err := sqlite.NewAttestations(db).Attestation(t.Context(), "att"); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("of another envelope: %v", err)
	}
	must.Do(t, sqlite.Exec(db, "UPDATE events SET payload = NULL, salt = NULL WHERE seq = ?1", seq))
	if _, err := sqlite.NewAttestations(db).Attestation(t.Context(), "att"); reason.Of(err) != reason.NotFound {
		t.Errorf("of an erased event: %v", err)
	}
}
