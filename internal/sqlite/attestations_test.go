package sqlite_test

import (
	"bytes"
	"testing"

	"palyra/internal/attest"
	"palyra/internal/callrecord"
	"palyra/internal/canonical"
	"palyra/internal/event"
	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
	"palyra/internal/toolcall"
	"palyra/internal/toolcall/toolcalltest"
)

func TestAttestations(t *testing.T) {
	t.Parallel()
	toolcalltest.RunAttestations(t, func(t *testing.T) toolcalltest.Archive {
		db := sqlitetest.Open(t)
		return struct {
			toolcall.Ledger
			attest.Store
		}{sqlite.NewCalls(db), db}
	})
}

// The envelope of a call stands in its event, and is not stored a second time.
func TestEnvelopeIsReadFromItsEvent(t *testing.T) {
	t.Parallel()
	db := sqlitetest.Open(t)
	calls := sqlite.NewCalls(db)
	envelope := []byte(`{"payload":"aGVsbG8=","payloadType":"text/plain"}`)
	signed := (&callrecord.Attested{AttestationID: "att", ProposalID: "a", DecisionID: "d-a", Envelope: envelope}).Signed()
	record(t, calls, toolcall.Entry{Drafts: []event.Draft{decided(t, "a", true)}})
	attested := callEvent(t, event.Attested, "a", "run-a", callrecord.Attested{AttestationID: "att", ProposalID: "a", DecisionID: "d-a", Envelope: envelope})
	seq := record(t, calls, toolcall.Entry{
		Drafts:      []event.Draft{attested},
		Attestation: &toolcall.StoredAttestation{Envelope: signed, ProposalID: "a", CallDigest: canonical.Digest(nil)},
	})
	assertCount(t, db, "SELECT count(*) FROM attestations WHERE length(envelope) > 0", 0)
	for name, read := range map[string]func() (attest.Stored, error){
		"by id":       func() (attest.Stored, error) { return db.Attestation(t.Context(), "att") },
		"by proposal": func() (attest.Stored, error) { return db.AttestationByProposal(t.Context(), "a") },
		"listed": func() (attest.Stored, error) {
			list, err := db.Attestations(t.Context(), 0, 10)
			return append(list, attest.Stored{})[0], err
		},
	} {
		if got := must.Get(read())(t); !bytes.Equal(got.Envelope, envelope) || got.Seq != seq || got.SHA256 != signed.SHA256 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	// What the event has now is not what was signed.
	must.Do(t, sqlite.Exec(db, "UPDATE events SET payload = CAST(replace(payload, 'aGVsbG8=', 'aGVsbG9v') AS BLOB) WHERE seq = ?1", seq))
	if _, err := db.Attestation(t.Context(), "att"); reason.Of(err) != reason.VerificationFailed {
		t.Errorf("of another envelope: %v", err)
	}
	must.Do(t, sqlite.Exec(db, "UPDATE events SET payload = NULL, salt = NULL WHERE seq = ?1", seq))
	if _, err := db.Attestation(t.Context(), "att"); reason.Of(err) != reason.NotFound {
		t.Errorf("of an erased event: %v", err)
	}
}
