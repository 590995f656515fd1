package tui

import (
	"slices"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/printer"
)

// row is an approval in the inbox. It has no arguments and no diff, which would need much
// memory for ten thousand rows.
type row struct {
	id, what, by     string
	severity         string
	state            palyrav1.ApprovalState
	kind             palyrav1.ApprovalSubjectType
	requester, owner string
	tool             string
	created, expires time.Time
	version          int64
	answered         string
	// gone is true if the filter does not match any more: it was answered while displayed.
	gone bool
}

// mostWhat bounds the stored part of a summary, in runes: more than a line shows.
const mostWhat = 400

func rowOf(v *palyrav1.Approval) *row {
	r := &row{
		id: v.GetApprovalId(), what: head(whatOf(v), mostWhat), by: printer.OnBehalf(v.GetRequestedBy(), v.GetOnBehalfOf()),
		severity: v.GetSeverity(), state: v.GetState(), kind: v.GetSubjectType(),
		tool: v.GetPrompt().GetTool(), requester: v.GetRequestedBy(), owner: v.GetOnBehalfOf(),
		created: v.GetCreatedAt().AsTime(), expires: v.GetExpiresAt().AsTime(), version: v.GetVersion(),
	}
	if votes := v.GetVotes(); len(votes) > 0 && !r.pending() {
		last := votes[len(votes)-1]
		r.answered = last.GetUser() + " (" + last.GetSurface() + ")"
	}
	return r
}

// whatOf returns the subject of an approval, with the command line or the file first.
func whatOf(v *palyrav1.Approval) string {
	if lead := v.GetPrompt().GetLead(); lead != "" {
		return lead + " · " + ask.ApprovalSummary(v)
	}
	return ask.ApprovalSummary(v)
}

func (r *row) pending() bool { return r.state == palyrav1.ApprovalState_APPROVAL_STATE_PENDING }

// head returns the beginning of a text, with at most the given number of runes.
func head(s string, runes int) string {
	n := 0
	for i := range s {
		if n++; n > runes {
			return s[:i]
		}
	}
	return s
}

// rows are the approvals in the order of their requests, so that a new row is last and moves no
// other.
type rows struct {
	list []*row
	// at is the cursor position, top the first displayed row.
	at, top int
	// moved is true if the cursor stays on its row, because the user moved it or the list was
	// loaded.
	moved bool
}

// begin puts the cursor on the first row when the list was read for the first time. The stream
// of changes may already have added a later row.
func (s *rows) begin() {
	if !s.moved {
		s.at, s.top, s.moved = 0, 0, true
	}
}

func (s *rows) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.list, id, func(r *row, id string) int { return strings.Compare(r.id, id) })
}

// put updates a row after a change, and ignores older states. A row that the filter does not match
// is marked in place, and is not added.
func (s *rows) put(r *row, admits func(*row) bool) {
	i, here := s.find(r.id)
	switch r.gone = !admits(r); {
	case here && r.version < s.list[i].version:
	case here:
		s.list[i] = r
	case r.gone:
	default:
		before := len(s.list) > 0
		s.list = slices.Insert(s.list, i, r)
		if before && i <= s.at {
			s.at++
			s.top++
		}
	}
}

// under returns the row at the cursor, or nil.
func (s *rows) under() *row {
	if s.at >= len(s.list) {
		return nil
	}
	return s.list[s.at]
}

// move moves the cursor; room is the number of displayed rows.
func (s *rows) move(by, room int) {
	s.moved = true
	s.at = max(0, min(s.at+by, len(s.list)-1))
	s.reveal(room)
}

// reveal scrolls so that the cursor is on the screen, and no line is empty while rows are above it.
func (s *rows) reveal(room int) {
	s.top = max(0, min(s.top, len(s.list)-max(1, room), s.at))
	s.top = max(s.top, s.at-max(1, room)+1)
}

// seen returns the displayed rows.
func (s *rows) seen(room int) []*row {
	return s.list[min(s.top, len(s.list)):min(len(s.list), s.top+max(0, room))]
}

// tidy removes answered rows that are neither displayed nor at the cursor; with all, all answered
// rows.
func (s *rows) tidy(room int, all bool) {
	kept := make([]*row, 0, len(s.list))
	at, top := s.at, s.top
	for i, r := range s.list {
		on := i >= s.top && i < s.top+room
		if !r.gone || !all && (i == s.at || on) {
			kept = append(kept, r)
			continue
		}
		if i < s.at {
			at--
		}
		if i < s.top {
			top--
		}
	}
	s.list, s.at, s.top = kept, max(0, min(at, len(kept)-1)), top
	s.reveal(room)
}

// waiting counts the pending approvals.
func (s *rows) waiting() int {
	n := 0
	for _, r := range s.list {
		if r.pending() {
			n++
		}
	}
	return n
}
