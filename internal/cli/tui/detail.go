package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/printer"
	"palyra/internal/core/access"
)

// detail is one approval as displayed.
type detail struct {
	id string
	// approval is nil until the gateway sent it.
	approval *palyrav1.Approval
	lines    []string
	width    int
	top      int
	// since is when the approval appeared; answers are accepted some time later.
	since time.Time
	// changed describes a change since it was displayed; counted is true for the caller's own
	// answer, and voted if the caller allowed it.
	changed        string
	counted, voted bool
	// then is the key pressed in the list, whose dialog opens once the approval is displayed.
	then string
}

// became records a change of the approval since it was displayed. A call that runs after the
// caller's own answer is not reported.
func (d *detail) became(v *palyrav1.Approval) {
	if d.voted && v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED {
		d.changed, d.counted = "your answer counts: the call was let through", true
		return
	}
	d.changed, d.counted = becameOf(d.approval, v), false
}

// becameOf describes a change of a displayed approval.
func becameOf(was, v *palyrav1.Approval) string {
	state := printer.Enum(v.GetState())
	votes := v.GetVotes()
	switch {
	case v.GetCallDigest() != was.GetCallDigest():
		return "the call was changed while you looked: it is another one now, read it again"
	case v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING && len(votes) > len(was.GetVotes()):
		return votes[len(votes)-1].GetUser() + " voted while you looked"
	case v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
		return "it changed while you looked"
	case v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED && len(votes) == len(was.GetVotes()):
		return "the call was let through"
	case len(votes) > len(was.GetVotes()):
		last := votes[len(votes)-1]
		return fmt.Sprintf("%s decided it (%s): %s", last.GetUser(), last.GetSurface(), state)
	}
	return "it is " + state
}

// request returns a vote on the displayed approval.
func (d *detail) request(v ask.Vote) *palyrav1.DecideApprovalRequest {
	req := v.Request(d.approval.GetApprovalId(), d.approval.GetCallDigest())
	req.Surface = string(access.SurfaceTUI)
	return req
}

var allowOnce = ask.Vote{Allow: true, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_ONCE}

// refusal returns why an answer to the approval would be refused, "" if it may be accepted.
func (d *detail) refusal(presence bool) string {
	v := d.approval
	if v.GetState() != palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		return "it is " + stateOf(v) + " already"
	}
	you := v.GetYou()
	if you == nil || you.GetMayDecide() || you.GetWithPresence() && presence {
		return ""
	}
	return strings.TrimSpace(printer.Sentence(you.GetMessage()) + " " + you.GetRemedy())
}

// scroll moves the page.
func (d *detail) scroll(by, room int) {
	d.top = max(0, min(d.top+by, len(d.lines)-room))
}

// mostAsked is the number of summary lines above an answer.
const mostAsked = 3

// asked returns the summary, and the missing votes.
func (d *detail) asked(style printer.Palette, width int) []string {
	v := d.approval
	lines := fold(printer.VisibleLine(head(whatOf(v), mostAsked*width+1)), width)
	if len(lines) > mostAsked {
		lines = append(lines[:mostAsked-1], clip(lines[mostAsked-1], width-18)+" (all of it above)")
	}
	for i := range lines {
		lines[i] = style.Bold(lines[i])
	}
	if needed := cmp.Or(ask.Needs(v), v.GetMissing()); needed != "" && v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		lines = append(lines, clip("still needed: "+needed, width))
	}
	return lines
}
