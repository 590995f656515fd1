// Package record defines the content of call events: their payloads, the story of one call
// (Story), and the state of a session computed from its calls (Facts). The pipeline writes the
// payloads, and stores keep them as bytes. All readers use this package, so that they interpret
// the events in the same way.
package record

import (
	"fmt"
	"strings"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"palyra/internal/call/decision"
	"palyra/internal/call/policy"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
)

// Story is the history of one call. A member is nil if its event did not occur.
type Story struct {
	Session, Run string
	// Steps are all events, in order.
	Steps    []Step
	Proposed *Proposed
	// Edits are the edited versions, oldest first; Decided has the digest of the approved one.
	Edits []*Edited
	// Evaluations are the policy evaluations, oldest first, also those about the changes.
	Evaluations []*Evaluated
	Decided     *decision.Record
	// Gates are the rulings on the call's changes, oldest first.
	Gates []*Gated
	// AtGate is true for a call whose changes have no ruling yet.
	AtGate  bool
	Refused *Refused
	// Attested and Ambiguous are the end of the call, AttestedSeq is the number of its event.
	Attested    *Attested
	AttestedSeq int64
	Ambiguous   *Ambiguous
	// Sighted is an execution that an agent reported and that differs from the decision.
	Sighted *Sighted
}

// Step is one event of a call. Payload is the result of Decode.
type Step struct {
	Seq     int64
	At      time.Time
	Code    event.Code
	Payload any
}

// Tell builds the story of a call from its events, in order.
func Tell(events []journal.Event) (Story, error) {
	var s Story
	for i := range events {
		if err := s.add(&events[i]); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (s *Story) add(e *journal.Event) error {
	payload, err := Decode(e)
	if s.Session, s.Run = e.Session, e.Run; payload != nil {
		s.Steps = append(s.Steps, Step{e.Seq, e.At, e.Code, payload})
	}
	switch p := payload.(type) {
	case *Proposed:
		s.Proposed = p
	case *Edited:
		s.Edits = append(s.Edits, p)
	case *Refused:
		s.Refused = p
	case *Evaluated:
		s.Evaluations = append(s.Evaluations, p)
		s.AtGate = s.AtGate || p.Request.Commit != nil
	case *decision.Record:
		s.Decided = p
	case *Gated:
		s.Gates, s.AtGate = append(s.Gates, p), false
	case *Attested:
		s.Attested, s.AttestedSeq = p, e.Seq
	case *Ambiguous:
		s.Ambiguous = p
	case *Sighted:
		if e.Code == event.RanOther || e.Code == event.Ungoverned {
			s.Sighted = p
		}
	}
	return reading(e, err)
}

// reading adds the event to err.
func reading(e *journal.Event, err error) error {
	if err == nil || reason.Of(err) == reason.NotFound {
		return err
	}
	return fmt.Errorf("reading event %d of call %s: %w", e.Seq, e.Subject, err)
}

// Gate returns the last ruling on the call's changes, or nil.
func (s *Story) Gate() *Gated {
	if len(s.Gates) == 0 {
		return nil
	}
	return s.Gates[len(s.Gates)-1]
}

// Decode reads the payload of an event of a call or of a session. It returns a pointer to one
// of the types of this package or to a decision.Record, and nil for any other event. For an
// erased payload the error is reason.NotFound. Duplicate members are an error, because two
// readers could use different ones.
func Decode(e *journal.Event) (any, error) {
	create := payloads[e.Code]
	if create == nil {
		return nil, nil
	}
	if len(e.Payload) == 0 {
		return nil, reason.Errorf(reason.NotFound, "event %d of call %s was erased", e.Seq, e.Subject)
	}
	into := create()
	if err := jsonv2.Unmarshal(e.Payload, into, jsonv1.FormatDurationAsNano(true)); err != nil {
		return nil, err
	}
	return into, nil
}

// payloads creates the payload of each event of a call or of a session.
var payloads = map[event.Code]func() any{
	event.Proposed:        empty[Proposed],
	event.Edited:          empty[Edited],
	event.Refused:         empty[Refused],
	event.Evaluated:       empty[Evaluated],
	event.Decided:         empty[decision.Record],
	event.Gated:           empty[Gated],
	event.Violated:        empty[Violated],
	event.Attested:        empty[Attested],
	event.Ambiguous:       empty[Ambiguous],
	event.RanOther:        empty[Sighted],
	event.Ungoverned:      empty[Sighted],
	event.ReportedLate:    empty[Sighted],
	event.Unjoined:        empty[Sighted],
	event.SessionExtended: empty[SessionExtended],
	event.SessionEnded:    empty[SessionEnded],
}

func empty[T any]() any { return new(T) }

// VerdictOf returns a verdict for the journal.
func VerdictOf(v policy.Verdict) Verdict {
	return Verdict{
		Effect: v.Effect().String(), Determining: v.Determining(), GrantID: v.GrantID(),
		SnapshotDigest: v.SnapshotDigest(), PolicyVersion: v.PolicyVersion(), made: v,
	}
}

// Signed returns the envelope with its digest.
func (a *Attested) Signed() attest.Envelope {
	return attest.Envelope{
		ID: a.AttestationID, JSON: a.Envelope, SHA256: strings.TrimPrefix(canonical.Digest(a.Envelope), "sha256:"),
	}
}
