package tui

import (
	"context"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
)

// Seat is the screen, for the tests from outside.
type Seat struct{ m *model }

// NewSeat asks a gateway at once.
func NewSeat(a *client.App, g *client.Gateway) *Seat {
	return &Seat{newModel(a, g, func(do func(context.Context) tea.Msg) tea.Cmd {
		return func() tea.Msg { return do(context.Background()) }
	})}
}

// Tell gives it a message, and what its commands answer, and theirs.
func (s *Seat) Tell(msg tea.Msg) {
	_, cmd := s.m.Update(msg)
	s.run(cmd)
}

// Acts gives it a key, and reports whether that did anything.
func (s *Seat) Acts(key tea.KeyPressMsg) bool {
	before := strings.Join(s.Screen(), "\n")
	_, cmd := s.m.Update(key)
	acts := cmd != nil
	s.run(cmd)
	return acts || strings.Join(s.Screen(), "\n") != before
}

// Helped are the names of the keys that ? lists.
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

// Screen is what it shows.
func (s *Seat) Screen() []string { return s.m.screen() }

// What the stream of changes says.
func Opened() tea.Msg                      { return openedMsg{} }
func Beat() tea.Msg                        { return beatMsg{} }
func Lost() tea.Msg                        { return lostMsg{time.Second} }
func Changed(v *palyrav1.Approval) tea.Msg { return changedMsg{v} }

// Said is a message that has no other place.
func Said(text string) tea.Msg { return saidMsg{text} }

// Fold is fold.
var Fold = fold
