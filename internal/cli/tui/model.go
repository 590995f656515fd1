package tui

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// quiet is how long the gateway may be silent before the screen is marked as stale. The gateway
// sends a heartbeat every two seconds.
const quiet = 4500 * time.Millisecond

// model is the state of the screen. Only Update changes it.
type model struct {
	*client.App
	queries queries
	feed    feed

	size
	inbox inbox
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

// feed is the state of the stream of changes.
type feed struct {
	// heard is when the gateway last sent data, beats is true if it sends heartbeats.
	heard time.Time
	live  bool
	beats bool
	// away is why the stream is permanently closed.
	away string
}

func newModel(a *client.App, g *client.Gateway, do func(func(context.Context) tea.Msg) tea.Cmd) *model {
	f, _ := parseFilter("", a.Now())
	return &model{App: a, queries: queries{a, g, do}, inbox: inbox{filter: f}, feed: feed{heard: a.Now()}}
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
		m.inbox.rows.tidy(m.room(), false)
		return m, tick()
	case tea.KeyPressMsg:
		return m, m.key(msg)
	case tea.PasteMsg:
		if l := typed(m.dialog); l != nil {
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
	m.inbox.rows.reveal(m.room())
	if m.open != nil && m.open.approval != nil && m.open.width != m.width {
		return m.queries.refold(m.open.approval, m.width)
	}
	return nil
}

// follows processes messages of the stream of changes.
func (m *model) follows(msg tea.Msg) tea.Cmd {
	m.feed.heard = m.Now()
	switch msg := msg.(type) {
	case openedMsg:
		m.feed.live, m.feed.away, m.feed.beats = true, "", false
		again := tea.Cmd(nil)
		if m.open != nil {
			again = m.queries.show(m.open.id, m.width)
		}
		return tea.Batch(m.queries.list(m.inbox.filter), again)
	case beatMsg:
		m.feed.beats = true
	case changedMsg:
		m.feed.live = true
		return m.changed(msg.approval)
	case lostMsg:
		m.feed.live = false
		m.notice = "connection lost; trying again in " + msg.again.String()
	case endedMsg:
		m.feed.live = false
		m.feed.away = "the gateway ended the connection"
		if msg.err != nil {
			m.feed.away = client.Explain(nil, msg.err).Message
		}
	}
	return nil
}

// isLive reports whether the screen is current.
func (f feed) isLive(now time.Time) bool { return f.live && (!f.beats || now.Sub(f.heard) < quiet) }

// changed processes one changed approval. The open approval is updated also while the list is
// paused, because an answer applies to the current state.
func (m *model) changed(v *palyrav1.Approval) tea.Cmd {
	r := rowOf(v)
	m.inbox.changed(r, m.room())
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
	return m.queries.show(r.id, m.width)
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

// answered processes responses of the gateway.
func (m *model) answered(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case listedMsg:
		if err := m.inbox.take(msg, m.room()); err != nil {
			m.notice = errorLine(err)
		}
	case shownMsg:
		m.displayed(msg)
	case foldedMsg:
		if m.open != nil && m.open.approval.GetCallDigest() == msg.digest && msg.width == m.width {
			m.open.lines, m.open.width = msg.lines, msg.width
			m.open.scroll(0, m.pageRoom())
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
		return m.queries.listGrants()
	}
	return nil
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
	m.open.scroll(0, m.pageRoom())
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
			return m.queries.show(msg.id, m.width)
		}
		return nil
	}
	m.dialog = nil
	v := msg.approval
	m.inbox.put(rowOf(v))
	said := "your answer counts: " + printer.Enum(v.GetState())
	switch {
	case v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING:
		said = "your vote counts; still missing: " + v.GetMissing()
	case v.GetGrantId() != "":
		said += ", with grant " + v.GetGrantId() + " (g shows it)"
	}
	if m.open != nil && m.open.id == msg.id {
		m.open.changed, m.open.counted, m.open.voted, m.open.approval = said, true, msg.vote.GetAllow(), v
		return m.queries.show(msg.id, m.width)
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
