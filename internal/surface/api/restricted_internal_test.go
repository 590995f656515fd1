package api

import (
	"testing"

	"palyra/internal/call"
	"palyra/internal/call/decision"
	"palyra/internal/evidence/attest"
)

// TestDigestsOfFilesAreRestricted: the digest of a call, and the statement about it, would
// confirm a guess of the files that they were computed from. If policy forbids a caller to read
// those files, it gets them only if it may read attestations.
func TestDigestsOfFilesAreRestricted(t *testing.T) {
	t.Parallel()
	for _, restricted := range []bool{false, true} {
		for _, attested := range []bool{false, true} {
			r, withheld := reader{attested: attested}, func() bool { return restricted }
			d := r.decision(decision.Record{CallDigest: "sha256:a"}, withheld)
			a := r.attestation(call.Attestation{Envelope: attest.Envelope{ID: "01", JSON: []byte("{}")}}, withheld)
			shown := !restricted || attested
			if (d.GetCallDigest() != "") != shown || (a.GetEnvelopeJson() != nil) != shown || a.GetAttestationId() != "01" {
				t.Errorf("restricted %t, attested %t: %v, %v", restricted, attested, d, a)
			}
		}
	}
}
