package record

import (
	"slices"
	"time"

	"palyra/internal/call/decision"
	"palyra/internal/call/session"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// unseen are the egress modes, of plans and of evidence, in which nobody sees
// what a program exchanges. The evidence calls "none" unrestricted.
var unseen = []string{"preflight", "none", "unrestricted"}

// EffectsOf is what a call may do to the facts of its session once it is let
// through. Nobody sees what a program reads from a network that is open; it may. What an
// agent runs itself is known by its tool.
func EffectsOf(name string, openWorld bool, f tool.Facts, maySend int64) session.Effects {
	return session.Effects{
		Tool: name, Secrets: f.Secrets, MaySend: maySend,
		Taints: openWorld || f.External == nil && slices.Contains(unseen, f.EgressMode),
	}
}

// TrafficOf is what the evidence says that a call exchanged.
func TrafficOf(e tool.Egress) session.Traffic {
	open := slices.Contains(unseen, e.Mode)
	t := session.Traffic{Read: open, Unseen: open}
	for _, c := range e.Observed {
		t.Sent += c.BytesOut
		t.Read = t.Read || c.BytesIn > 0
	}
	return t
}

// Facts folds the events of a session and of its calls into what the session
// did, as package session counts it live. The zero value has none.
type Facts struct {
	calls  map[string]*callFacts
	limit  int
	lastAt time.Time
}

// callFacts are what the events of one call say.
type callFacts struct {
	ofRun bool
	// effects are those of all evaluations of the call.
	effects        session.Effects
	allowed, ended bool
	traffic        session.Traffic
	// astray is true for a call that its agent ran otherwise than it was let.
	astray bool
}

// Add takes in one event. OfRun says that it is of a call of the gateway's runs.
// The order of events is of no matter, and the event is not kept.
//
// A payload that was erased counts as if the call had been let through, and had
// read from the open world.
func (f *Facts) Add(e *journal.Event, ofRun bool) error {
	var payload any
	var err error
	if !e.Erased() {
		if payload, err = Decode(e); err != nil {
			return reading(e, err)
		}
	}
	switch e.Code {
	case event.SessionExtended:
		if p, ok := payload.(*SessionExtended); ok {
			f.limit = max(f.limit, p.Limit)
		}
		return nil
	case event.SessionEnded:
		return nil
	}
	if e.At.After(f.lastAt) {
		f.lastAt = e.At
	}
	c := f.calls[e.Subject]
	if c == nil {
		if f.calls == nil {
			f.calls = make(map[string]*callFacts)
		}
		c = &callFacts{ofRun: ofRun}
		f.calls[e.Subject] = c
	}
	c.add(e.Code, payload)
	return nil
}

// add takes in a payload, nil when it was erased.
func (c *callFacts) add(code event.Code, payload any) {
	switch p := payload.(type) {
	case *Proposed:
		c.effects.Tool, c.effects.Taints = p.Tool, c.effects.Taints || p.OpenWorld
	case *Evaluated:
		c.effects.MaySend = max(c.effects.MaySend, p.MaySend)
		if p.Request.Commit == nil { // else it is about the changes of the call
			more := EffectsOf("", false, p.Request.Facts, 0)
			c.effects.Secrets = append(c.effects.Secrets, more.Secrets...)
			c.effects.Taints = c.effects.Taints || more.Taints
		}
	case *decision.Record:
		c.allowed = p.Allowed
	case *Attested:
		c.ended, c.traffic = true, TrafficOf(p.Report.Egress)
	case *Sighted:
		c.astray = c.astray || code != event.ReportedLate
	case nil:
		c.effects.Taints = c.effects.Taints || code == event.Proposed
		c.allowed = c.allowed || code == event.Decided
		c.ended = c.ended || code == event.Attested
	}
}

// Did is what the session did that began at a time. Calls that were let through
// and have no end may still send what they could.
func (f *Facts) Did(startedAt time.Time) session.Did {
	did := session.Did{Limit: f.limit, LastAt: startedAt}
	if f.lastAt.After(startedAt) {
		did.LastAt = f.lastAt
	}
	for _, c := range f.calls {
		if c.ofRun {
			did.RunCalls++
		} else {
			did.Facts.CallsInRun++
		}
		c.count(&did.Facts)
	}
	return did
}

func (c *callFacts) count(f *tool.SessionFacts) {
	switch {
	case !c.allowed:
	case c.ended:
		c.effects.Begin(f)
		f.BytesOut += c.effects.Sent(c.traffic)
	default:
		c.effects.Begin(f)
		f.BytesOut += c.effects.MaySend
	}
	f.Tainted = f.Tainted || c.traffic.Read || c.astray
}
