package tui

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	palyrav1 "palyra/gen/palyra/v1"
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

// size is the size of the terminal in cells.
type size struct{ width, height int }

func (s size) small() bool { return s.width < leastWidth || s.height < leastHeight }

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
		left += "  " + text.Plural(m.inbox.rows.waiting(), "call") + " waiting"
		if m.inbox.more {
			left += fmt.Sprintf(", the oldest %d are listed", len(m.inbox.rows.list))
		}
	}
	if m.inbox.held != nil {
		left += fmt.Sprintf("  PAUSED, %d changed", len(m.inbox.held))
	}
	mark := style.Green("● live")
	if !m.feed.isLive(m.Now()) {
		mark = style.Red("○ stale " + printer.Span(m.Now().Sub(m.feed.heard)))
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
		return helpLines()
	case m.grants != nil:
		return m.grants.body(m.OutStyle(), m.size, m.Relative, room)
	case m.open != nil && m.open.approval == nil:
		return []string{"reading ..."}
	case m.open != nil:
		top := min(m.open.top, len(m.open.lines))
		return m.open.lines[top:min(len(m.open.lines), top+room)]
	}
	return m.inbox.body(m.OutStyle(), m.size, m.Now(), room)
}

func helpLines() []string {
	var lines []string
	for _, k := range keyHelp {
		lines = append(lines, fmt.Sprintf("  %-33s %s", k[0], k[1]))
	}
	return lines
}

// two returns the two lines of a list item: its subject, and its details.
func (s size) two(style printer.Palette, what, about string, under, gone bool) []string {
	mark, paint := "  ", style.Bold
	switch {
	case under:
		mark, paint = "> ", style.Reverse
	case gone:
		paint = style.Dim
	}
	return []string{paint(mark + clip(what, s.width-2)), style.Dim("    " + clip(about, s.width-4))}
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
		lines = append(lines, m.open.asked(style, m.width)...)
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
	if notice == "" && m.feed.away != "" {
		notice = m.feed.away + " (leave with q and start again)"
	}
	return append(lines, clip(notice, m.width))
}

func (s size) ruleWith(text string) string {
	return "──" + text + strings.Repeat("─", max(0, s.width-2-len(text)))
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
	case m.open != nil && m.open.refusal(m.presence) != "":
		return "no answer: " + m.open.refusal(m.presence) + "   Esc back   ? help"
	case m.open != nil:
		return "a allow once   s allow more   d deny   c copy as command   Esc back   ? help"
	case m.inbox.filter.text != "":
		return "filter " + m.inbox.filter.text + "   / change   Esc take it away   ? help   q quit"
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
