package sqlite_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra/internal/attest"
	"palyra/internal/event"
	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/sqlite"
	"palyra/internal/sqlite/sqlitetest"
)

func attestation(i int) attest.Stored {
	return attest.Stored{
		ID: fmt.Sprintf("01JNA3Q0G0ATTEST%010d", i), ProposalID: fmt.Sprintf("01JNA3Q0G0PR0P0S%010d", i),
		CallDigest: "sha256:" + strings.Repeat("1", 64), SHA256: strings.Repeat("2", 64), Envelope: []byte(`{"payload":"` + fmt.Sprint(i) + `"}`),
	}
}

func put(t *testing.T, db *sqlite.DB, a attest.Stored) (int64, error) {
	t.Helper()
	events, err := db.Commit(t.Context(), sqlite.Unit{
		Check: func(tx *sqlite.Tx) error {
			if err := sqlite.PutAttestation(tx, a); err != nil {
				return err
			}
			tx.Emit(event.Draft{Code: event.Attested, Actor: "service:palyrad", Subject: a.ProposalID, Payload: []byte(`{}`)})
			return nil
		},
	})
	if err != nil {
		return 0, err
	}
	return events[0].Seq, nil
}

func TestAttestations(t *testing.T) {
	db := sqlitetest.Open(t)
	var want []attest.Stored
	for i := range 5 {
		a := attestation(i)
		seq := must.Get(put(t, db, a))(t)
		a.Seq = seq
		want = append([]attest.Stored{a}, want...)
	}
	ignore := cmpopts.IgnoreFields(attest.Stored{}, "CreatedAt", "Position")
	for _, w := range want {
		byID := must.Get(db.Attestation(t.Context(), w.ID))(t)
		byProposal := must.Get(db.AttestationByProposal(t.Context(), w.ProposalID))(t)
		if diff := cmp.Diff(w, byID, ignore); diff != "" || byID.CreatedAt.IsZero() {
			t.Errorf("by id, at %s:\n%s", byID.CreatedAt, diff)
		}
		if diff := cmp.Diff(byID, byProposal); diff != "" {
			t.Errorf("by proposal:\n%s", diff)
		}
	}
	var got []attest.Stored
	for before := int64(0); ; before = got[len(got)-1].Position {
		page := must.Get(db.Attestations(t.Context(), before, 2))(t)
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("pages:\n%s", diff)
	}
}

func TestAttestationOnce(t *testing.T) {
	db := sqlitetest.Open(t)
	must.Get(put(t, db, attestation(1)))(t)
	sameProposal, sameID := attestation(1), attestation(1)
	sameProposal.ID = attestation(2).ID
	sameID.ProposalID = attestation(2).ProposalID
	for name, a := range map[string]attest.Stored{"proposal": sameProposal, "id": sameID} {
		if _, err := put(t, db, a); reason.Of(err) != reason.AlreadyExists {
			t.Errorf("a second attestation with the same %s: %v", name, err)
		}
	}
	for _, get := range []func() (attest.Stored, error){
		func() (attest.Stored, error) { return db.Attestation(t.Context(), attestation(3).ID) },
		func() (attest.Stored, error) {
			return db.AttestationByProposal(t.Context(), attestation(3).ProposalID)
		},
	} {
		if _, err := get(); reason.Of(err) != reason.NotFound {
			t.Errorf("got %v, want NOT_FOUND", err)
		}
	}
	if list, err := db.Attestations(t.Context(), 0, 0); err != nil || len(list) != 1 {
		t.Errorf("%d attestations, %v", len(list), err)
	}
}
