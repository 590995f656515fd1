package record

import (
	"fmt"
	"time"

	"palyra/internal/call/decision"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/evidence/journal"
)

// Story is the history of one call. A member is nil if its event did not occur.
type Story struct {
	Session, Run string
	// Steps are all events, in order.
	Steps    []Step
	Proposed *Proposed
	// Edits are the edited versions of the call, oldest first. The approved version has the
	// call digest of Decided.
	Edits []*Edited
	// Evaluations are the policy evaluations, oldest first, including those about the call's
	// changes.
	Evaluations []*Evaluated
	Decided     *decision.Record
	// Gates are the rulings on the call's changes, oldest first.
	Gates []*Gated
	// AtGate is true for a call whose changes have no ruling yet.
	AtGate  bool
	Refused *Refused
	// Attested and Ambiguous are the end of the call. AttestedSeq is the sequence number of the
	// event.
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

// Arguments returns the digest of the arguments of the decided call and its salt: of the
// proposed arguments, or of the edited ones.
func (s *Story) Arguments() (digest, salt string) {
	for _, e := range s.Edits {
		if s.Decided != nil && e.CallDigest == s.Decided.CallDigest {
			digest, salt = e.ArgumentsDigest, e.ArgumentsSalt
		}
	}
	if digest == "" && s.Proposed != nil {
		return s.Proposed.ArgumentsDigest, s.Proposed.ArgumentsSalt
	}
	return digest, salt
}

// Gate returns the last ruling on the call's changes, or nil.
func (s *Story) Gate() *Gated {
	if len(s.Gates) == 0 {
		return nil
	}
	return s.Gates[len(s.Gates)-1]
}
