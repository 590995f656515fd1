package record

import (
	"encoding/json"
	"errors"
	"fmt"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
	"palyra/internal/identity/passkey"
)

// NotePasskey adds an event to the log of passkeys and verifies its proof. It returns an error
// if the event is invalid. It ignores other events, and events with an erased payload.
func NotePasskey(log *passkey.Log, e *journal.Event) error {
	if e.Erased() {
		return nil
	}
	switch e.Code {
	case event.PasskeyEnrolled:
		return read(e, log.Enrolled)
	case event.PasskeyConfirmed:
		return read(e, log.Confirmed)
	case event.PasskeyRemoved:
		return read(e, log.Removed)
	case event.Voted:
		return read(e, func(p approval.VotedPayload) error { return voted(log, p) })
	}
	return nil
}

func read[T any](e *journal.Event, take func(T) error) error {
	var p T
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	return take(p)
}

func voted(log *passkey.Log, p approval.VotedPayload) error {
	proof := p.Vote.Passkey
	switch {
	case proof == nil:
		return nil
	case proof.Version != p.Version-1 || p.Vote.ShownDigest != p.CallDigest:
		return fmt.Errorf("the passkey's proof is of another vote: of version %d of the approval, not of %d", proof.Version, p.Version-1)
	case !p.Vote.Present:
		return errors.New("the vote has a passkey's proof, but it does not prove presence")
	}
	return log.Voted(p.Vote.User, *proof, func(gateway string) passkey.Statement { return p.Vote.Said(gateway, p.ApprovalID) })
}
