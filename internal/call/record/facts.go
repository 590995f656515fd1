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

// unobserved lists the egress modes in which the traffic of a program is not observed. Plans use
// "none" for the mode that evidence calls "unrestricted".
var unobserved = []string{"preflight", "none", "unrestricted"}

// EffectsOf returns the possible effects of an allowed call on the facts of its session. A
// program with an open network is assumed to read from it. For tools that an agent runs itself,
// the tool defines the effects.
func EffectsOf(name string, openWorld bool, f tool.Facts, maySend int64) session.Effects {
	return session.Effects{
		Tool: name, Secrets: f.Secrets, MaySend: maySend,
		Taints: openWorld || f.External == nil && slices.Contains(unobserved, f.EgressMode),
	}
}

// TrafficOf returns the traffic of a call according to the evidence.
func TrafficOf(e tool.Egress) session.Traffic {
	open := slices.Contains(unobserved, e.Mode)
	t := session.Traffic{Read: open, Unseen: open}
	for _, c := range e.Observed {
		t.Sent += c.BytesOut
		t.Read = t.Read || c.BytesIn > 0
	}
	return t
}

// Facts computes the state of a session from the events of the session and its calls. The result
// equals the state that package session counts live. The zero value has no events.
type Facts struct {
	calls  map[string]*callFacts
	limit  int
	lastAt time.Time
}

// callFacts is the state of one call from its events.
type callFacts struct {
	ofRun bool
	// effects is the union over all evaluations of the call.
	effects        session.Effects
	allowed, ended bool
	traffic        session.Traffic
	// diverged is true for a call that its agent ran differently from the decision.
	diverged bool
}

// Add processes one event. ofRun is true if it belongs to a call of a gateway run. The order of
// events does not matter, and the event is not retained.
//
// An erased payload counts as if the call had been allowed and had read from the open world.
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

// add processes a payload, nil if it was erased.
func (c *callFacts) add(code event.Code, payload any) {
	switch p := payload.(type) {
	case *Proposed:
		c.effects.Tool, c.effects.Taints = p.Tool, c.effects.Taints || p.OpenWorld
	case *Evaluated:
		c.effects.MaySend = max(c.effects.MaySend, p.MaySend)
		if p.Request.Commit == nil { // otherwise the evaluation covers the changes of the call
			more := EffectsOf("", false, p.Request.Facts, 0)
			c.effects.Secrets = append(c.effects.Secrets, more.Secrets...)
			c.effects.Taints = c.effects.Taints || more.Taints
		}
	case *decision.Record:
		c.allowed = p.Allowed
	case *Attested:
		c.ended, c.traffic = true, TrafficOf(p.Report.Egress)
	case *Sighted:
		c.diverged = c.diverged || code != event.ReportedLate
	case nil:
		c.effects.Taints = c.effects.Taints || code == event.Proposed
		c.allowed = c.allowed || code == event.Decided
		c.ended = c.ended || code == event.Attested
	}
}

// Did returns the state of the session that began at startedAt. Allowed calls without an end
// may still send their reserved bytes.
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
	f.Tainted = f.Tainted || c.traffic.Read || c.diverged
}
