package tui

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/printer"
	"palyra/internal/core/text"
)

// The smallest terminal that has room for a question.
const (
	leastWidth  = 80
	leastHeight = 24
)

// rowLines is the number of lines of an approval in the list.
const rowLines = 2

func (m *model) small() bool { return m.width < leastWidth || m.height < leastHeight }

// View implements tea.Model.
func (m *model) View() tea.View {
	v := tea.NewView(strings.Join(m.screen(), "\n"))
	v.AltScreen = true
	return v
}

// screen returns all lines: a head, a body, and at the bottom the dialog with the last message.
func (m *model) screen() []string {
	if m.width == 0 {
		return nil
	}
	if m.small() {
		text := fmt.Sprintf("This terminal has %d columns and %d lines.\nA question needs 80 and 24: make it larger.\nCtrl-C leaves.", m.width, m.height)
		if m.unheeded != "" {
			text += "\nThe key " + printer.VisibleLine(m.unheeded) + " did nothing."
		}
		return fold(text, m.width)
	}
	foot := m.foot()
	body := m.body(m.height - 1 - len(foot))
	for len(body) < m.height-1-len(foot) {
		body = append(body, "")
	}
	return append(append([]string{m.head()}, body...), foot...)
}

// head shows the position, and whether the data is current.
func (m *model) head() string {
	style := m.OutStyle()
	left := "palyra"
	switch {
	case m.grants != nil:
		left += "  grants"
	case m.open != nil && m.open.approval != nil:
		v := m.open.approval
		left += "  " + stateOf(v)
		if v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
			left += ", " + leftOf(v.GetExpiresAt().AsTime().Sub(m.Now()))
		}
		left += ", " + orNone(v.GetSeverity())
	default:
		left += "  " + text.Plural(m.rows.waiting(), "call") + " waiting"
		if m.more {
			left += fmt.Sprintf(", the oldest %d are listed", len(m.rows.list))
		}
	}
	if m.held != nil {
		left += fmt.Sprintf("  PAUSED, %d changed", len(m.held))
	}
	mark := style.Green("● live")
	if !m.isLive() {
		mark = style.Red("○ stale " + printer.Span(m.Now().Sub(m.heard)))
	}
	left = clip(left, m.width-lipgloss.Width(mark)-1)
	return style.Bold(left) + strings.Repeat(" ", max(1, m.width-lipgloss.Width(left)-lipgloss.Width(mark))) + mark
}

// stateOf returns the state of an approval.
func stateOf(v *palyrav1.Approval) string { return printer.Enum(v.GetState()) }

func orNone(severity string) string {
	if severity == "" {
		return "no severity"
	}
	return severity
}

// leftOf formats the remaining time.
func leftOf(d time.Duration) string {
	if d <= 0 {
		return "no time left"
	}
	return printer.Span(d) + " left"
}

// room returns how many approvals fit in the list.
func (m *model) room() int { return max(0, m.height-1-len(m.foot())) / rowLines }

// pageRoom returns how many lines of a page fit.
func (m *model) pageRoom() int { return max(1, m.height-1-len(m.foot())) }

func (m *model) body(room int) []string {
	switch {
	case m.help:
		return m.helpLines()
	case m.grants != nil:
		return m.grantBody(room)
	case m.open != nil && m.open.approval == nil:
		return []string{"reading ..."}
	case m.open != nil:
		top := min(m.open.top, len(m.open.lines))
		return m.open.lines[top:min(len(m.open.lines), top+room)]
	}
	return m.listBody(room)
}

func (m *model) helpLines() []string {
	var lines []string
	for _, k := range keyHelp {
		lines = append(lines, fmt.Sprintf("  %-33s %s", k[0], k[1]))
	}
	return lines
}

func (m *model) listBody(room int) []string {
	if len(m.rows.list) == 0 {
		return []string{"", "  no call waits" + map[bool]string{true: " that the filter admits", false: ""}[m.filter.text != ""]}
	}
	var lines []string
	for i, r := range m.rows.seen(room / rowLines) {
		about := []string{printer.Enum(r.state), orNone(r.severity), "asked " + printer.Span(max(0, m.Now().Sub(r.created))) + " ago"}
		switch {
		case r.pending():
			about = append(about, leftOf(r.expires.Sub(m.Now())))
		case r.answered != "":
			about = append(about, r.answered)
		}
		lines = append(lines, m.two(r.what, strings.Join(append(about, r.by), " · "), m.rows.top+i == m.rows.at, r.gone)...)
	}
	return lines
}

// two returns the two lines of a list item: its subject, and its details.
func (m *model) two(what, about string, under, gone bool) []string {
	style := m.OutStyle()
	mark, paint := "  ", style.Bold
	switch {
	case under:
		mark, paint = "> ", style.Reverse
	case gone:
		paint = style.Dim
	}
	return []string{paint(mark + clip(what, m.width-2)), style.Dim("    " + clip(about, m.width-4))}
}

func (m *model) grantBody(room int) []string {
	s := m.grants
	switch {
	case s.err != nil:
		return []string{"", clip("  "+errorLine(s.err), m.width)}
	case !s.came:
		return []string{"", "  reading ..."}
	case len(s.list) == 0:
		return []string{"", "  no grant is live"}
	}
	var lines []string
	for i := s.top; i < min(len(s.list), s.top+room/rowLines); i++ {
		what, about := m.grantLines(s.list[i])
		lines = append(lines, m.two(what, about, i == s.at, false)...)
	}
	return lines
}

// foot returns the bottom lines: changes, the summary directly above its answer, the dialog or the
// keys, and the last message.
func (m *model) foot() []string {
	style := m.OutStyle()
	rule := strings.Repeat("─", m.width)
	var lines []string
	if m.open != nil && m.open.approval != nil && m.grants == nil && !m.help {
		if n := len(m.open.lines); n > 0 {
			rule = m.ruleWith(fmt.Sprintf(" line %d of %d ", min(m.open.top+1, n), n))
		}
		if m.open.counted {
			lines = append(lines, style.Green(clip("✓ "+m.open.changed, m.width)))
		} else if m.open.changed != "" {
			lines = append(lines, style.Yellow(clip("! "+m.open.changed, m.width)))
		}
		lines = append(lines, m.asked()...)
	}
	lines = append([]string{style.Dim(rule)}, lines...)
	switch {
	case m.sending:
		lines = append(lines, "sent; waiting for the gateway's word ...")
	case m.dialog != nil:
		list := m.dialog.lines(m)
		if most := m.height / 2; len(list) > most {
			list = append(list[:most-1], list[len(list)-1])
		}
		for _, l := range list {
			lines = append(lines, clip(l, m.width))
		}
	default:
		lines = append(lines, clip(m.keyLine(), m.width))
	}
	notice := m.notice
	if notice == "" && m.away != "" {
		notice = m.away + " (leave with q and start again)"
	}
	return append(lines, clip(notice, m.width))
}

func (m *model) ruleWith(text string) string {
	return "──" + text + strings.Repeat("─", max(0, m.width-2-len(text)))
}

// mostAsked is the number of summary lines above an answer.
const mostAsked = 3

// asked returns the summary, and the missing votes.
func (m *model) asked() []string {
	v := m.open.approval
	lines := fold(printer.VisibleLine(head(whatOf(v), mostAsked*m.width+1)), m.width)
	if len(lines) > mostAsked {
		lines = append(lines[:mostAsked-1], clip(lines[mostAsked-1], m.width-18)+" (all of it above)")
	}
	for i := range lines {
		lines[i] = m.OutStyle().Bold(lines[i])
	}
	if needed := cmp.Or(ask.Needs(v), v.GetMissing()); needed != "" && v.GetState() == palyrav1.ApprovalState_APPROVAL_STATE_PENDING {
		lines = append(lines, clip("still needed: "+needed, m.width))
	}
	return lines
}

// keyLine returns the keys of the screen, or why an answer would be refused.
func (m *model) keyLine() string {
	switch {
	case m.help:
		return "any key goes back"
	case m.grants != nil:
		return "j k move   r take back   c copy as command   Esc back   ? help   q quit"
	case m.open != nil && m.open.approval == nil:
		return "Esc back   q quit"
	case m.open != nil && m.refusal() != "":
		return "no answer: " + m.refusal() + "   Esc back   ? help"
	case m.open != nil:
		return "a allow once   s allow more   d deny   c copy as command   Esc back   ? help"
	case m.filter.text != "":
		return "filter " + m.filter.text + "   / change   Esc take it away   ? help   q quit"
	}
	return "j k move   Enter show   a allow   d deny   / filter   g grants   ? help   q quit"
}

// clip escapes a text and cuts it to a number of cells. It does not process the rest, regardless of
// its length.
func clip(s string, cells int) string {
	short := head(s, cells+1)
	text := printer.Clip(printer.VisibleLine(short), max(1, cells))
	if short != s && !strings.HasSuffix(text, "…") {
		text = printer.Clip(text+"…", max(1, cells))
	}
	return text
}
