// Package journal is the append-only log of all actions of the gateway: a hash chain over events, a
// Merkle tree over their hashes, signed checkpoints, proofs, following, verification and export. It
// does not interpret the payloads of events, and keeps its data in a Store. docs/format/journal.md
// specifies the format.
package journal

import (
	"fmt"

	"palyra/internal/core/reason"
)

// CorruptError means that the journal differs from the journal as it was written.
type CorruptError struct {
	// Seq is the first sequence number that is wrong or missing.
	Seq  int64
	What string
}

// Error returns the sequence number and the defect.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("journal is damaged at sequence number %d: %s", e.Seq, e.What)
}

// Unwrap makes every CorruptError a reason.VerificationFailed.
func (e *CorruptError) Unwrap() error {
	return reason.Errorf(reason.VerificationFailed, "%s", e.Error())
}

func corrupt(seq int64, what string) error { return &CorruptError{Seq: seq, What: what} }
