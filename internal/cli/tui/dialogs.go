package tui

import (
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/printer"
)

// dialog is displayed below its subject, and receives the keys.
type dialog interface {
	key(m *model, k tea.KeyPressMsg) tea.Cmd
	// lines are its displayed lines; the last one has its keys.
	lines(m *model) []string
}

// filtering is the dialog for a filter.
type filtering struct{ line line }

func (d *filtering) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.dialog = nil
	case "enter":
		return m.choose(d.line.text)
	default:
		d.line.key(k)
	}
	return nil
}

func (d *filtering) lines(m *model) []string {
	return []string{"filter: " + d.line.visible(m.width-8), filterHelp, "Enter filter   Esc back"}
}

// confirming is the dialog that casts a vote once y is pressed.
type confirming struct {
	vote  ask.Vote
	since time.Time
}

func (d *confirming) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	name := k.String()
	if by, ok := steps(name, m.pageRoom()-1); ok {
		m.open.scroll(by, m.pageRoom()) // the call can be scrolled to its end during the question
		return nil
	}
	switch name {
	case "esc", "n":
		m.dialog = nil
		m.notice = "not answered; it stays pending"
	case "c":
		m.dialog = &copying{commands: []string{d.vote.Command(m.open.approval)}, back: d}
	case "y":
		if m.armed(d.since) {
			return d.send(m, m.presence && (m.open.approval.GetPresenceWanted() || m.open.approval.GetYou().GetWithPresence()))
		}
	case "p":
		if !m.presence {
			m.notice = "this device has no presence key; make one: palyra key presence --passphrase"
		} else if m.armed(d.since) {
			return d.send(m, true)
		}
	}
	return nil
}

// send casts the vote; a proof of presence requires the passphrase first.
func (d *confirming) send(m *model, present bool) tea.Cmd {
	if m.open.approval == nil || m.open.refusal(m.presence) != "" {
		m.notice = "it changed meanwhile; read it again"
		m.dialog = nil
		return nil
	}
	if present {
		m.dialog = &proving{vote: m.open.request(d.vote), line: line{hidden: true}}
		return nil
	}
	m.sending = true
	return m.queries.cast(m.open.request(d.vote), nil)
}

func (d *confirming) lines(m *model) []string {
	what := "allow this call once?"
	if covers := d.vote.Covers(m.open.approval); covers != "" {
		what = "allow " + covers + "?"
	}
	keys := "y allow   Esc leave it pending   c copy as command"
	if m.presence {
		keys = "y allow   p allow, with presence   Esc leave it pending   c copy as command"
	}
	return append(printer.Wrap(printer.VisibleLine(what), m.width), keys)
}

// choosing is the dialog that selects one of the offered answers.
type choosing struct {
	offers []*palyrav1.ApprovalScopeOffer
	at     int
}

func (d *choosing) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.dialog = nil
	case "j", "down":
		d.at = min(d.at+1, len(d.offers)-1)
	case "k", "up":
		d.at = max(d.at-1, 0)
	case "enter":
		if len(d.offers) == 0 {
			return nil
		}
		o := d.offers[d.at]
		v := ask.Vote{Allow: true, Scope: o.GetScope(), Match: o.GetMatch()}
		if v.Scope == palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED {
			m.dialog = &timing{vote: v, line: line{text: "30m"}, back: d}
			return nil
		}
		m.dialog = &confirming{vote: v, since: m.Now()}
	}
	return nil
}

func (d *choosing) lines(m *model) []string {
	var list []string
	for i, o := range d.offers {
		mark := "  "
		if i == d.at {
			mark = "> "
		}
		name := strings.TrimSpace(printer.Enum(o.GetScope()) + " " + printer.Enum(o.GetMatch()))
		text := o.GetCovers()
		if o.GetPermission() != "" {
			text += " (takes " + o.GetPermission() + ")"
		}
		list = append(list, clip(mark+name+": "+text, m.width))
	}
	if len(d.offers) > 0 && d.at < len(d.offers) {
		list = append(list, printer.Wrap("covers "+printer.VisibleLine(head(d.offers[d.at].GetCovers(), mostWhat)), m.width)...)
	}
	return append(list, "j k choose   Enter go on   Esc leave it pending")
}

// timing is the dialog for the duration of an approval, and the number of calls.
type timing struct {
	vote ask.Vote
	line line
	back *choosing
}

func (d *timing) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.dialog = d.back
	case "enter":
		v, err := ask.ParseVote("t " + d.line.text + " " + printer.Enum(d.vote.Match))
		if err == nil {
			err = v.Check()
		}
		if err != nil {
			m.notice = errorLine(err)
			return nil
		}
		m.dialog = &confirming{vote: v, since: m.Now()}
	default:
		d.line.key(k)
	}
	return nil
}

func (d *timing) lines(m *model) []string {
	return []string{"for how long (30m, 2h, 3d), and for how many more calls (x3): " + d.line.visible(16), "Enter go on   Esc back"}
}

// denying is the dialog for the reason of a denial.
type denying struct {
	line  line
	since time.Time
}

func (d *denying) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.dialog = nil
		m.notice = "not answered; it stays pending"
	case "enter":
		v := ask.Vote{Reason: strings.TrimSpace(d.line.text)}
		if v.Reason == "" {
			m.notice = "a denial requires a reason, which tells the requester what to do instead"
			return nil
		}
		if !m.armed(d.since) {
			return nil
		}
		m.sending = true
		return m.queries.cast(m.open.request(v), nil)
	default:
		d.line.key(k)
	}
	return nil
}

func (d *denying) lines(m *model) []string {
	return []string{"deny, because: " + d.line.visible(m.width-16), "Enter deny   Esc leave it pending"}
}

// proving is the dialog for the passphrase of the presence key. The vote lacks only the proof
// of presence.
type proving struct {
	vote *palyrav1.DecideApprovalRequest
	line line
}

func (d *proving) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.dialog = nil
		m.notice = "not answered; it stays pending"
	case "enter":
		phrase := d.line.text
		d.line.text = ""
		m.sending = true
		return m.queries.cast(d.vote, &phrase)
	default:
		d.line.key(k)
	}
	return nil
}

func (d *proving) lines(*model) []string {
	return []string{"prove that you are there; passphrase of the presence key: " + d.line.visible(16), "Enter allow   Esc leave it pending"}
}

// copying shows command lines, and copies one to the clipboard of a terminal that supports it (OSC
// 52). They contain ids and digests, and no text of a model.
type copying struct {
	commands []string
	at       int
	back     dialog
}

func (d *copying) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.dialog = d.back
		if c, ok := d.back.(*confirming); ok {
			c.since = m.Now()
		}
	case "j", "down":
		d.at = min(d.at+1, len(d.commands)-1)
	case "k", "up":
		d.at = max(d.at-1, 0)
	case "enter":
		m.notice = "copied, if this terminal lets programs copy"
		return tea.SetClipboard(d.commands[d.at])
	}
	return nil
}

func (d *copying) lines(m *model) []string {
	var list []string
	for i, c := range d.commands {
		mark := "  "
		if i == d.at {
			mark = "> "
		}
		list = append(list, fold(mark+c, m.width)...)
	}
	return append(list, "Enter copy   j k choose   Esc back")
}
