package tui

import (
	"context"
	"fmt"
	"time"

	tea "charm.land/bubbletea/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// quiet is how long the gateway may be silent before the screen is marked as stale. The gateway
// sends a heartbeat every two seconds.
const quiet = 4500 * time.Millisecond

// model is the state of the screen. Only Update changes it.
type model struct {
	*client.App
	g *client.Gateway
	// do creates a command for a query of the gateway.
	do func(func(context.Context) tea.Msg) tea.Cmd

	width, height int
	filter        filter
	rows          rows
	// more is true if the gateway has more approvals than listed.
	more bool
	// held has the changes that arrive while the list is paused; nil if it is not paused.
	held map[string]*row

	// heard is when the gateway last sent data, beats is true if it sends heartbeats.
	heard time.Time
	live  bool
	beats bool
	// away is why the stream is permanently closed.
	away string

	// open is the approval on the screen, nil for the list.
	open   *detail
	grants *grantList
	// dialog is displayed at the bottom and receives the keys; nil for none.
	dialog dialog
	help   bool
	// unheeded is the last key that was pressed while the terminal was too small, "" for none.
	unheeded string
	// sending is true while a vote is in flight.
	sending bool
	// presence is true if this device has a presence key.
	presence bool
	notice   string
}

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

func newModel(a *client.App, g *client.Gateway, do func(func(context.Context) tea.Msg) tea.Cmd) *model {
	f, _ := parseFilter("", a.Now())
	return &model{App: a, g: g, do: do, filter: f, heard: a.Now()}
}

// tickMsg moves the countdowns.
type tickMsg struct{}

func tick() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tickMsg{} }) }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return tick() }

// Update implements tea.Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		return m, m.resized(msg)
	case tickMsg:
		m.rows.tidy(m.room(), false)
		return m, tick()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if l := m.typed(); l != nil {
			l.add(msg.Content)
		}
	case saidMsg:
		m.notice = msg.text
	case openedMsg, beatMsg, changedMsg, lostMsg, endedMsg:
		return m, m.follows(msg)
	default:
		return m, m.answered(msg)
	}
	return m, nil
}

func (m *model) resized(msg tea.WindowSizeMsg) tea.Cmd {
	m.width, m.height = msg.Width, msg.Height
	m.rows.reveal(m.room())
	if m.open != nil && m.open.approval != nil && m.open.width != m.width {
		return m.refold()
	}
	return nil
}

// follows processes messages of the stream of changes.
func (m *model) follows(msg tea.Msg) tea.Cmd {
	m.heard = m.Now()
	switch msg := msg.(type) {
	case openedMsg:
		m.live, m.away, m.beats = true, "", false
		again := tea.Cmd(nil)
		if m.open != nil {
			again = m.show(m.open.id)
		}
		return tea.Batch(m.list(), again)
	case beatMsg:
		m.beats = true
	case changedMsg:
		m.live = true
		return m.changed(msg.approval)
	case lostMsg:
		m.live = false
		m.notice = "connection lost; trying again in " + msg.again.String()
	case endedMsg:
		m.live = false
		m.away = "the gateway ended the connection"
		if msg.err != nil {
			m.away = client.Explain(nil, msg.err).Message
		}
	}
	return nil
}

// isLive reports whether the screen is current.
func (m *model) isLive() bool { return m.live && (!m.beats || m.Now().Sub(m.heard) < quiet) }

// changed processes one changed approval. The open approval is updated also while the list is
// paused, because an answer applies to the current state.
func (m *model) changed(v *palyrav1.Approval) tea.Cmd {
	r := rowOf(v)
	if m.held != nil {
		if was := m.held[r.id]; was == nil || was.version <= r.version {
			m.held[r.id] = r
		}
	} else {
		m.rows.put(r, m.filter.admits)
		m.rows.reveal(m.room())
	}
	if m.open == nil || m.open.id != r.id || m.open.approval == nil || v.GetVersion() <= m.open.approval.GetVersion() {
		return nil
	}
	if !m.sending {
		m.open.became(v)
	}
	m.open.since = m.Now()
	if d, ok := m.dialog.(*confirming); ok && !m.sending {
		d.since = m.Now()
	}
	if !r.pending() || v.GetCallDigest() != m.open.approval.GetCallDigest() {
		m.leaveVote()
	}
	return m.show(r.id)
}

// leaveVote closes a dialog for an approval that is not pending any more.
func (m *model) leaveVote() {
	switch m.dialog.(type) {
	case *confirming, *choosing, *timing, *denying, *proving:
		if !m.sending {
			m.dialog = nil
		}
	}
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

// answered processes responses of the gateway.
func (m *model) answered(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case listedMsg:
		m.listed(msg)
	case shownMsg:
		m.displayed(msg)
	case foldedMsg:
		if m.open != nil && m.open.approval.GetCallDigest() == msg.digest && msg.width == m.width {
			m.open.lines, m.open.width = msg.lines, msg.width
			m.scroll(0)
		}
	case votedMsg:
		return m.voted(msg)
	case grantsMsg:
		if m.grants != nil {
			m.grants.take(msg)
		}
	case revokedMsg:
		m.notice = errorLine(msg.err)
		if msg.err == nil {
			m.notice = "revoked: " + msg.grant.GetGrantId() + ", was used " + text.Plural(int(msg.grant.GetUses()), "time")
		}
		return m.listGrants()
	}
	return nil
}

func (m *model) listed(msg listedMsg) {
	switch {
	case msg.filter != m.filter.text:
	case msg.err != nil:
		m.notice = errorLine(msg.err)
	default:
		m.more = msg.more
		for _, r := range msg.rows {
			m.rows.put(r, m.filter.admits)
		}
		m.rows.begin()
		m.rows.reveal(m.room())
	}
}

func (m *model) displayed(msg shownMsg) {
	if m.open == nil || m.open.id != msg.id {
		return
	}
	if msg.err != nil {
		m.notice = errorLine(msg.err)
		return
	}
	was := m.open.approval
	if was != nil && msg.approval.GetVersion() < was.GetVersion() {
		return
	}
	if was == nil || was.GetVersion() != msg.approval.GetVersion() {
		m.open.since = m.Now()
	}
	if was != nil && msg.approval.GetVersion() > was.GetVersion() && m.open.changed == "" && !m.sending {
		m.open.became(msg.approval)
	}
	if was != nil && was.GetCallDigest() != msg.approval.GetCallDigest() {
		m.open.top = 0
		m.leaveVote()
	}
	m.open.approval, m.open.lines, m.open.width = msg.approval, msg.lines, msg.width
	m.scroll(0)
	m.presence = ask.HasPresence(m.App)
	then := m.open.then
	if m.open.then = ""; then != "" && m.dialog == nil {
		m.begin(then)
	}
}

// voted processes the response to a vote.
func (m *model) voted(msg votedMsg) tea.Cmd {
	m.sending = false
	if msg.err != nil {
		e := client.Explain(nil, msg.err)
		m.notice = errorLine(msg.err)
		if e.Code == reason.PresenceNotProven {
			return nil // another passphrase may be correct
		}
		m.dialog = nil
		if m.open != nil && m.open.id == msg.id {
			m.open.changed, m.open.counted = m.notice, false
			return m.show(msg.id)
		}
		return nil
	}
	m.dialog = nil
	v := msg.approval
	m.rows.put(rowOf(v), m.filter.admits)
	said := "your answer counts: " + printer.Enum(v.GetState())
	switch {
	case v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
		said = "your vote counts; still missing: " + v.GetMissing()
	case v.GetGrantId() != "":
		said += ", with grant " + v.GetGrantId() + " (g shows it)"
	}
	if m.open != nil && m.open.id == msg.id {
		m.open.changed, m.open.counted, m.open.voted, m.open.approval = said, true, msg.vote.GetAllow(), v
		return m.show(msg.id)
	}
	return nil
}

// errorLine returns an error with its remedy, "" for none.
func errorLine(err error) string {
	if err == nil {
		return ""
	}
	e := client.Explain(nil, err)
	text := printer.FirstLine(e.Message) + " [" + string(e.Code) + "]"
	if next := e.NextStep(); next != "" {
		text += " " + next
	}
	return text
}

// armed reports whether text that appeared at a time has been displayed long enough to be read.
func (m *model) armed(since time.Time) bool {
	if m.Now().Sub(since) >= m.Arm {
		return true
	}
	m.notice = "too soon: read it, then press the key again"
	return false
}

// request returns a vote on the displayed approval.
func (m *model) request(v ask.Vote) *palyrav1.DecideApprovalRequest {
	req := v.Request(m.open.approval.GetApprovalId(), m.open.approval.GetCallDigest())
	req.Surface = string(access.SurfaceTUI)
	return req
}
