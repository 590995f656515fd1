package tui

import (
	"slices"
	"strings"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/printer"
)

// row is what the inbox keeps of an approval: no arguments and no diff, of which ten
// thousand would be a lot.
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
	// gone is that the filter does not admit it any more: it was answered while it
	// stood on the screen.
	gone bool
}

// mostWhat bounds what a row keeps of a summary, in runes: more than a line shows.
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

// whatOf is what an approval is about, with the command line or the file first.
func whatOf(v *palyrav1.Approval) string {
	if lead := v.GetPrompt().GetLead(); lead != "" {
		return lead + " · " + ask.ApprovalSummary(v)
	}
	return ask.ApprovalSummary(v)
}

func (r *row) pending() bool { return r.state == palyrav1.ApprovalState_APPROVAL_STATE_PENDING }

// head is the beginning of a text, at most so many runes.
func head(s string, runes int) string {
	n := 0
	for i := range s {
		if n++; n > runes {
			return s[:i]
		}
	}
	return s
}

// rows are the approvals in the order in which they were asked, so that a new one
// comes last and moves nothing.
type rows struct {
	list []*row
	// at is where the cursor stands, top the first row on the screen.
	at, top int
	// moved is that the cursor stays on its row, because a person moved it or the list was read.
	moved bool
}

// begin puts the cursor on the first row when the list was read for the first time. The stream of
// changes may have brought a later row before.
func (s *rows) begin() {
	if !s.moved {
		s.at, s.top, s.moved = 0, 0, true
	}
}

func (s *rows) find(id string) (int, bool) {
	return slices.BinarySearchFunc(s.list, id, func(r *row, id string) int { return strings.Compare(r.id, id) })
}

// put takes a row as it is after a change. What an older one says is dropped. A row
// that the filter does not admit is marked where it stands, and is not added.
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

// under is the row below the cursor, nil where there is none.
func (s *rows) under() *row {
	if s.at >= len(s.list) {
		return nil
	}
	return s.list[s.at]
}

// move moves the cursor; room is how many rows the screen has.
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

// seen are the rows on the screen.
func (s *rows) seen(room int) []*row {
	return s.list[min(s.top, len(s.list)):min(len(s.list), s.top+max(0, room))]
}

// tidy drops what was answered and is not on the screen, nor below the cursor; with all,
// whatever was answered.
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

// waiting counts those that wait for somebody.
func (s *rows) waiting() int {
	n := 0
	for _, r := range s.list {
		if r.pending() {
			n++
		}
	}
	return n
}
