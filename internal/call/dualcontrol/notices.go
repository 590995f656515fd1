package dualcontrol

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// noticePeriod is how long a notice is displayed. Notices are about changes that one person
// made alone, changes made on the gateway's host, and approved changes that were not made.
const noticePeriod = 7 * 24 * time.Hour

// Journal records changes, and returns them at the next start.
type Journal interface {
	Record(ctx context.Context, code event.Code, actor, subject string, payload any) error
	List(ctx context.Context, f journal.Filter) ([]journal.Event, error)
}

// notice is a message that the status shows for a limited time.
type notice struct {
	at   time.Time
	text string
	// alone is true for a change by one person. Such a notice is not displayed while the gateway
	// has only one owner or admin.
	alone bool
}

// maxNotices is the highest number of notices in memory.
const maxNotices = 20

// Begin journals that the configuration disables dual control, if it does, and reads the
// notices that are still displayed. It must be called once, at the start.
func (g *Gate) Begin(ctx context.Context) error {
	if g.switchedOff {
		off := struct {
			Setting string `json:"setting"`
		}{"dual_control"}
		if err := g.journal.Record(ctx, event.DualControlOff, journal.Daemon, "", off); err != nil {
			return err
		}
	}
	since := g.now().Add(-noticePeriod)
	for code, read := range map[event.Code]func(journal.Event) (notice, bool){
		event.GatewayChange: madeAlone, event.PolicyReset: reset, event.Thawed: thawedOnHost, event.Restored: restored,
	} {
		events, err := g.journal.List(ctx, journal.Filter{Code: string(code), Since: since, Newest: true, Limit: maxNotices})
		if err != nil {
			// A damaged old event does not prevent the start; `palyra journal verify` finds it.
			g.notices = append(g.notices, notice{at: g.now(), text: "the changes of the last days cannot be read: " + err.Error() + "; `palyra journal verify` finds the damaged event"})
			continue
		}
		for i := len(events) - 1; i >= 0; i-- {
			if n, ok := read(events[i]); ok {
				g.notices = append(g.notices, n)
			}
		}
	}
	return nil
}

func madeAlone(e journal.Event) (notice, bool) {
	var c changed
	if json.Unmarshal(e.Payload, &c) != nil || !c.Alone {
		return notice{}, false
	}
	return c.notice(e.At), true
}

func (c changed) notice(at time.Time) notice {
	return notice{at: at, alone: true, text: fmt.Sprintf("by %s alone at %s: %s (%s)", c.RequestedBy, at.Format(time.RFC3339), c.Summary, c.Why)}
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
		return notice{at: e.At, text: "restored from a backup, and event " + fmt.Sprint(e.Seq) + " about it cannot be read: run `palyra journal verify`"}, true
	}
	return notice{at: e.At, text: fmt.Sprintf("restored from a backup of %s, at %s: changes and revocations in between are lost; compare restored/valid.txt in the state directory, which lists all valid credentials, before `palyra thaw`",
		r.MadeAt.Format(time.RFC3339), e.At.Format(time.RFC3339))}, true
}

func (g *Gate) note(n notice) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.notices = append(g.notices, n)
	if n := len(g.notices); n > maxNotices {
		g.notices = g.notices[n-maxNotices:]
	}
}

// Notices returns the messages for the status: whether changes require a second person, and the
// notices of the last seven days. If the gateway has only one owner or admin, it omits dual
// control and the changes that one person made alone.
func (g *Gate) Notices() []string {
	state := g.DualControl()
	list := []string{"dual control is off, so one person can change members and policies, and end a freeze: " + state.Why}
	several := len(g.people.eligible(Rule{})) > 1 || g.people.ineligible() != ""
	switch {
	case state.On:
		list[0] = "dual control is on: changes of members and policies, and a thaw, require a second person; these can answer: " + state.Why
	case !several:
		list = nil // one person cannot have a second
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	since := g.now().Add(-noticePeriod)
	for _, n := range g.notices {
		if n.at.After(since) && (several || !n.alone) {
			list = append(list, n.text)
		}
	}
	return list
}
