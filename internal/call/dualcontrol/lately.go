package dualcontrol

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// told is how long everybody is told of what one person did alone where there are
// several, and of what the gateway's host did.
const told = 7 * 24 * time.Hour

// Journal is where changes are written, and read back at the start.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
	List(ctx context.Context, f journal.Filter) ([]journal.Event, error)
}

// notice is something that everybody is told of for a while.
type notice struct {
	at   time.Time
	text string
	// alone is true for one person's word, which is none where there is one person.
	alone bool
}

// kept is how many notices are remembered.
const kept = 20

// Begin journals that the configuration wants no second person, if it does, and reads
// what everybody still has to be told of. Call it once, at the start.
func (g *Gate) Begin(ctx context.Context) error {
	if g.switchedOff {
		off := struct {
			Setting string `json:"setting"`
		}{"dual_control"}
		if err := g.journal.Record(ctx, event.DualControlOff, journal.Daemon, "", off); err != nil {
			return err
		}
	}
	since := g.now().Add(-told)
	for code, read := range map[event.Code]func(journal.Event) (notice, bool){
		event.GatewayChange: byOne, event.PolicyReset: reset, event.Thawed: thawedOnHost, event.Restored: restored,
	} {
		events, err := g.journal.List(ctx, journal.Filter{Code: string(code), Since: since, Newest: true, Limit: kept})
		if err != nil {
			// A damaged old event keeps nobody from working; verifying finds it.
			g.lately = append(g.lately, notice{at: g.now(), text: "what changed in the last days cannot be read: " + err.Error() + "; `palyra journal verify` says where it is damaged"})
			continue
		}
		for i := len(events) - 1; i >= 0; i-- {
			if n, ok := read(events[i]); ok {
				g.lately = append(g.lately, n)
			}
		}
	}
	return nil
}

func byOne(e journal.Event) (notice, bool) {
	var c changed
	if json.Unmarshal(e.Payload, &c) != nil || !c.Alone {
		return notice{}, false
	}
	return c.notice(e.At), true
}

func (c changed) notice(at time.Time) notice {
	return notice{at: at, alone: true, text: fmt.Sprintf("by the word of %s alone at %s: %s (%s)", c.RequestedBy, at.Format(time.RFC3339), c.Summary, c.Why)}
}

func reset(e journal.Event) (notice, bool) {
	return notice{at: e.At, text: "the policies were reset on the gateway's host at " + e.At.Format(time.RFC3339)}, true
}

func thawedOnHost(e journal.Event) (notice, bool) {
	return notice{at: e.At, text: "a freeze was ended on the gateway's host at " + e.At.Format(time.RFC3339)}, e.Actor == journal.Daemon
}

func restored(e journal.Event) (notice, bool) {
	r, err := journal.ParseRestored(&e)
	if err != nil {
		return notice{at: e.At, text: "restored from a backup, of which event " + fmt.Sprint(e.Seq) + " cannot be read: `palyra journal verify`"}, true
	}
	return notice{at: e.At, text: fmt.Sprintf("restored from a backup of %s, at %s: what was done and revoked in between is lost; what is valid is in restored/valid.txt of the state directory, to be compared before `palyra thaw`",
		r.MadeAt.Format(time.RFC3339), e.At.Format(time.RFC3339))}, true
}

func (g *Gate) note(n notice) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lately = append(g.lately, n)
	if n := len(g.lately); n > kept {
		g.lately = g.lately[n-kept:]
	}
}

// Notices are what everybody is told: whether changes take a second person, and what
// was done without one in the last seven days, where there are several who could be
// one.
func (g *Gate) Notices() []string {
	state := g.DualControl()
	list := []string{"dual control is off, so that members, policies and a thaw take one person: " + state.Why}
	several := len(g.people.able(Rule{})) > 1 || g.people.unable() != ""
	switch {
	case state.On:
		list[0] = "dual control is on: changes of members and policies, and a thaw, take a second of " + state.Why
	case !several:
		list = nil // one person is nobody's second
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	since := g.now().Add(-told)
	for _, n := range g.lately {
		if n.at.After(since) && (several || !n.alone) {
			list = append(list, n.text)
		}
	}
	return list
}
