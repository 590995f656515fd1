package tui

import (
	tea "charm.land/bubbletea/v2"

	"palyra/internal/cli/calls/ask"
)

// keyHelp is the help of ?: every key with a function. A test tries all other keys.
var keyHelp = [][2]string{
	{"j k, Down Up", "move"},
	{"PgDn PgUp, Space, Ctrl-F Ctrl-B", "move by a page"},
	{"Home, End G", "to the oldest, to the newest"},
	{"Enter", "show the call in full; in a dialog, go on"},
	{"a", "allow this call once: asks to confirm with y"},
	{"s", "allow more than once: shows the coverage"},
	{"d", "deny, with a reason"},
	{"y, n", "after a or s: allow; leave it pending"},
	{"p", "pause the list; after a or s: with presence"},
	{"c", "the same as a command line, to copy"},
	{"/", "filter; Esc in the list takes it away"},
	{"x", "remove answered approvals from the list"},
	{"g", "grants: see them, and leave them"},
	{"r", "in the grants: take one back"},
	{"Ctrl-L", "ask the gateway again"},
	{"Ctrl-U Ctrl-W, Backspace Ctrl-H", "delete the line, a word, a character"},
	{"Esc, Left, Backspace", "back; an unanswered call stays pending"},
	{"Ctrl-Z", "suspend"},
	{"q, Ctrl-C", "leave"},
	{"?", "this help; any key goes back"},
}

// key passes a key to the dialog, or else to the screen.
func (m *model) key(k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	switch {
	case name == "ctrl+c":
		return tea.Quit
	case name == "ctrl+z":
		return tea.Suspend
	case m.small():
		m.unheeded = name
		return nil
	case m.sending:
		return nil
	}
	m.notice, m.unheeded = "", ""
	if m.help {
		m.help = false
		return nil
	}
	if m.dialog != nil {
		return m.dialog.key(m, k)
	}
	switch name {
	case "q":
		return tea.Quit
	case "?":
		m.help = true
		return nil
	case "ctrl+l":
		return tea.Batch(tea.ClearScreen, m.again())
	case "p":
		m.inbox.pause(m.room())
		return nil
	}
	switch {
	case m.grants != nil:
		return m.grantKey(name)
	case m.open != nil:
		return m.detailKey(name)
	}
	return m.listKey(name)
}

// again reloads everything on the screen from the gateway.
func (m *model) again() tea.Cmd {
	cmds := []tea.Cmd{m.queries.list(m.inbox.filter)}
	if m.open != nil {
		cmds = append(cmds, m.queries.show(m.open.id, m.width))
	}
	if m.grants != nil {
		cmds = append(cmds, m.queries.listGrants())
	}
	return tea.Batch(cmds...)
}

// steps returns the distance of movement keys.
func steps(name string, page int) (by int, ok bool) {
	const all = 1 << 30
	switch name {
	case "j", "down":
		return 1, true
	case "k", "up":
		return -1, true
	case "pgdown", "space", "ctrl+f":
		return max(1, page), true
	case "pgup", "ctrl+b":
		return -max(1, page), true
	case "G", "end":
		return all, true
	case "home":
		return -all, true
	}
	return 0, false
}

func (m *model) listKey(name string) tea.Cmd {
	if by, ok := steps(name, m.room()); ok {
		m.inbox.rows.move(by, m.room())
		return nil
	}
	switch name {
	case "/":
		m.dialog = &filtering{line{text: m.inbox.filter.text}}
	case "esc":
		if m.inbox.filter.text != "" {
			return m.choose("")
		}
	case "x":
		m.inbox.rows.tidy(m.room(), true)
	case "g":
		m.grants = &grantList{}
		return m.queries.listGrants()
	case "enter", "a", "s", "d", "c":
		r := m.inbox.rows.under()
		if r == nil {
			return nil
		}
		m.open = &detail{id: r.id, since: m.Now()}
		if name != "enter" {
			m.open.then = name
		}
		return m.queries.show(r.id, m.width)
	}
	return nil
}

func (m *model) detailKey(name string) tea.Cmd {
	if by, ok := steps(name, m.pageRoom()-1); ok {
		m.open.scroll(by, m.pageRoom())
		return nil
	}
	switch name {
	case "esc", "left", "backspace":
		m.open = nil
	case "g":
		m.grants = &grantList{}
		return m.queries.listGrants()
	case "a", "s", "d", "c":
		if m.open.approval == nil || !m.armed(m.open.since) {
			return nil
		}
		m.begin(name)
	}
	return nil
}

// begin opens the dialog of a key, unless an answer would be refused.
func (m *model) begin(name string) {
	v := m.open.approval
	if name == "c" {
		m.dialog = &copying{commands: []string{"palyra approvals show " + v.GetApprovalId(), allowOnce.Command(v), ask.Vote{Reason: "TEXT"}.Command(v)}}
		return
	}
	if why := m.open.refusal(m.presence); why != "" {
		m.notice = why
		return
	}
	switch name {
	case "a":
		m.dialog = &confirming{vote: allowOnce, since: m.Now()}
	case "s":
		m.dialog = &choosing{offers: v.GetPrompt().GetScopes()}
	case "d":
		m.dialog = &denying{line: line{most: 1024}, since: m.Now()}
	}
}

// choose filters the list by a text, if the text parses.
func (m *model) choose(text string) tea.Cmd {
	f, err := parseFilter(text, m.Now())
	if err != nil {
		m.notice = errorLine(err)
		return nil
	}
	m.inbox.filter, m.inbox.rows, m.inbox.more, m.dialog = f, rows{}, false, nil
	return m.queries.list(m.inbox.filter)
}

// typed returns the line that is being typed in a dialog, nil for none.
func typed(d dialog) *line {
	switch d := d.(type) {
	case *filtering:
		return &d.line
	case *timing:
		return &d.line
	case *denying:
		return &d.line
	case *proving:
		return &d.line
	case *revoking:
		return &d.line
	}
	return nil
}
