package tui

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
)

// Seat exports the screen for tests.
type Seat struct{ m *model }

// NewSeat returns a screen that runs its commands immediately.
func NewSeat(a *client.App, g *client.Gateway) *Seat {
	return &Seat{newModel(a, g, func(do func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg { return do(context.Background()) }
	})}
}

// Tell passes a message to the screen, and then the messages of the resulting commands.
func (s *Seat) Tell(msg tea.Msg) {
	_, cmd := s.m.Update(msg)
	s.run(cmd)
}

// Acts passes a key to the screen, and reports whether it had an effect.
func (s *Seat) Acts(key tea.KeyPressMsg) bool {
	before := strings.Join(s.Screen(), "\n")
	_, cmd := s.m.Update(key)
	acts := cmd != nil
	s.run(cmd)
	return acts || strings.Join(s.Screen(), "\n") != before
}

// Helped returns the names of the keys that ? lists.
func Helped() (names []string) {
	for _, k := range keyHelp {
		names = append(names, strings.FieldsFunc(k[0], func(r rune) bool { return r == ' ' || r == ',' })...)
	}
	return names
}

func (s *Seat) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, one := range msg {
			s.run(one)
		}
	case nil:
	default:
		s.Tell(msg)
	}
}

// Screen returns the lines of the screen.
func (s *Seat) Screen() []string { return s.m.screen() }

// Opened, Beat, Lost and Changed return the messages of the stream of changes.
func Opened() tea.Msg                      { return openedMsg{} }
func Beat() tea.Msg                        { return beatMsg{} }
func Lost() tea.Msg                        { return lostMsg{time.Second} }
func Changed(v *palyrav1.Approval) tea.Msg { return changedMsg{v} }

// Said returns a message for the status line.
func Said(text string) tea.Msg { return saidMsg{text} }

// Fold exports fold for tests.
var Fold = fold
