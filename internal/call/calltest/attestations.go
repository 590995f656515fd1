package calltest

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"palyra/internal/call"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
)

// Archive is a ledger with an attestation index.
type Archive interface {
	call.Ledger
	attest.Store
}

// RunAttestations is the conformance suite of attest.Store, for stores that a
// ledger fills.
func RunAttestations(t *testing.T, newArchive func(t *testing.T) Archive) {
	t.Helper()
	t.Run("attestations are found and listed", func(t *testing.T) { attestationsListed(t, newArchive(t)) })
	t.Run("a call has one attestation", func(t *testing.T) { oneAttestation(t, newArchive(t)) })
}

// attested returns the entry of attestation number i.
func attested(t *testing.T, i int) (call.Entry, attest.Stored) {
	id, proposal := fmt.Sprintf("01JNA3Q0G0ATTEST%010d", i), fmt.Sprintf("01JNA3Q0G0PR0P0S%010d", i)
	stored := attest.Stored{ID: id, ProposalID: proposal, CallDigest: fmt.Sprintf("sha256:%064d", i), Envelope: []byte(fmt.Sprintf(`{"payload":"%d"}`, i)), SHA256: fmt.Sprintf("%064d", i)}
	return call.Entry{
		Drafts: []event.Draft{callEvent(t, event.Attested, proposal, "run-a", struct{}{})},
		Attestation: &call.StoredAttestation{
			Envelope: attest.Envelope{ID: id, JSON: stored.Envelope, SHA256: stored.SHA256}, ProposalID: proposal, CallDigest: stored.CallDigest,
		},
	}, stored
}

func attestationsListed(t *testing.T, store Archive) {
	var want []attest.Stored
	for i := range 5 {
		entry, stored := attested(t, i)
		stored.Seq = record(t, store, entry)
		want = append([]attest.Stored{stored}, want...)
	}
	ignore := cmpopts.IgnoreFields(attest.Stored{}, "CreatedAt", "Position")
	for _, w := range want {
		byID := must.Get(store.Attestation(t.Context(), w.ID))(t)
		byProposal := must.Get(store.AttestationByProposal(t.Context(), w.ProposalID))(t)
		if diff := cmp.Diff(w, byID, ignore); diff != "" || byID.CreatedAt.IsZero() {
			t.Errorf("by id, at %s:\n%s", byID.CreatedAt, diff)
		}
		if diff := cmp.Diff(byID, byProposal); diff != "" {
			t.Errorf("by proposal:\n%s", diff)
		}
	}
	var got []attest.Stored
	for before := int64(0); ; before = got[len(got)-1].Position {
		page := must.Get(store.Attestations(t.Context(), before, 2))(t)
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
	}
	if diff := cmp.Diff(want, got, ignore); diff != "" {
		t.Errorf("pages:\n%s", diff)
	}
	if _, err := store.Attestation(t.Context(), "01JNA3Q0G0ATTEST0000000009"); reason.Of(err) != reason.NotFound {
		t.Errorf("one that is not there: %v", err)
	}
	if _, err := store.AttestationByProposal(t.Context(), "01JNA3Q0G0PR0P0S0000000009"); reason.Of(err) != reason.NotFound {
		t.Errorf("of a call that has none: %v", err)
	}
}

// A second attestation of a call, or a second one with the same id, makes its whole entry fail.
func oneAttestation(t *testing.T, store Archive) {
	first, _ := attested(t, 1)
	record(t, store, first)
	head, _ := store.Head()
	sameProposal, _ := attested(t, 2)
	sameProposal.Attestation.ProposalID = first.Attestation.ProposalID
	sameID, _ := attested(t, 2)
	sameID.Attestation.Envelope.ID = first.Attestation.Envelope.ID
	for name, entry := range map[string]call.Entry{"proposal": sameProposal, "id": sameID} {
		if _, err := store.Record(t.Context(), entry); reason.Of(err) != reason.AlreadyExists {
			t.Errorf("a second one with the same %s: %v", name, err)
		}
	}
	if now, _ := store.Head(); now != head {
		t.Error("a second one is in the journal")
	}
	if list, err := store.Attestations(t.Context(), 0, 0); err != nil || len(list) != 1 {
		t.Errorf("%d attestations, %v", len(list), err)
	}
}
