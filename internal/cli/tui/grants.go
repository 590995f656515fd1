package tui

import (
	"cmp"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/calls/ask"
	"palyra/internal/cli/printer"
)

// grantList is the list of live grants.
type grantList struct {
	list    []*palyrav1.Grant
	at, top int
	// came is true once the gateway has answered.
	came bool
	err  error
}

func (s *grantList) take(msg grantsMsg) {
	s.came, s.err = true, msg.err
	if msg.err != nil {
		return
	}
	id := s.under().GetGrantId()
	s.list, s.at = msg.grants, min(s.at, max(0, len(msg.grants)-1))
	for i, g := range s.list {
		if g.GetGrantId() == id {
			s.at = i
		}
	}
}

func (s *grantList) under() *palyrav1.Grant {
	if s.at >= len(s.list) {
		return nil
	}
	return s.list[s.at]
}

func (m *model) grantKey(name string) tea.Cmd {
	s := m.grants
	if by, ok := steps(name, m.room()); ok {
		s.at = max(0, min(s.at+by, len(s.list)-1))
		s.top = max(min(s.top, s.at), s.at-max(1, m.room())+1)
		return nil
	}
	switch name {
	case "esc", "g":
		m.grants = nil
	case "c":
		if g := s.under(); g != nil {
			m.dialog = &copying{commands: []string{"palyra grants revoke " + g.GetGrantId()}}
		}
	case "r":
		if g := s.under(); g != nil {
			m.dialog = &revoking{grant: g, since: m.Now()}
		}
	}
	return nil
}

// revoking is the dialog that revokes a grant; the reason is recorded in the journal.
type revoking struct {
	grant *palyrav1.Grant
	line  line
	since time.Time
}

func (d *revoking) key(m *model, k tea.KeyPressMsg) tea.Cmd {
	switch k.String() {
	case "esc":
		m.dialog = nil
	case "enter":
		if m.armed(d.since) {
			m.dialog = nil
			return m.queries.revoke(d.grant.GetGrantId(), strings.TrimSpace(d.line.text))
		}
	default:
		d.line.key(k)
	}
	return nil
}

func (d *revoking) lines(m *model) []string {
	return []string{
		clip("take back "+d.grant.GetGrantId()+": "+ask.GrantCovers(d.grant), m.width),
		"why (may be empty): " + d.line.visible(m.width-20), "Enter take it back at once   Esc leave it",
	}
}

// grantLines returns the two lines of a grant.
func grantLines(relative func(*timestamppb.Timestamp) string, g *palyrav1.Grant) (what, about string) {
	parts := []string{
		printer.Enum(g.GetScope()) + " " + printer.Enum(g.GetMatch()), g.GetPrincipal(), "used " + ask.GrantUses(g),
		cmp.Or(strings.TrimPrefix(relative(g.GetExpiresAt()), "in ")+" left", "no end"), "by " + strings.Join(g.GetApprovers(), ","),
	}
	return ask.GrantCovers(g), strings.Join(parts, " · ")
}

func (s *grantList) body(style printer.Palette, z size, relative func(*timestamppb.Timestamp) string, room int) []string {
	switch {
	case s.err != nil:
		return []string{"", clip("  "+errorLine(s.err), z.width)}
	case !s.came:
		return []string{"", "  reading ..."}
	case len(s.list) == 0:
		return []string{"", "  no grant is live"}
	}
	var lines []string
	for i := s.top; i < min(len(s.list), s.top+room/rowLines); i++ {
		what, about := grantLines(relative, s.list[i])
		lines = append(lines, z.two(style, what, about, i == s.at, false)...)
	}
	return lines
}
