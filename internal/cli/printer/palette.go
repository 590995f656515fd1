package printer

import (
	"charm.land/lipgloss/v2"
)

// Palette styles words on a terminal; the zero palette leaves them as they
// are. Only the sixteen colours that a terminal's own theme defines are used.
type Palette struct{ on bool }

func paletteFor(on bool) Palette { return Palette{on: on} }

func (p Palette) render(style lipgloss.Style, s string) string {
	if !p.on || s == "" {
		return s
	}
	return style.Render(s)
}

// Bold is for emphasis.
func (p Palette) Bold(s string) string { return p.render(lipgloss.NewStyle().Bold(true), s) }

// Dim is for secondary text.
func (p Palette) Dim(s string) string { return p.render(lipgloss.NewStyle().Faint(true), s) }

// Reverse is for the cursor position.
func (p Palette) Reverse(s string) string { return p.render(lipgloss.NewStyle().Reverse(true), s) }

// Red is for failures.
func (p Palette) Red(s string) string {
	return p.render(lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red), s)
}

// Green is for successes.
func (p Palette) Green(s string) string {
	return p.render(lipgloss.NewStyle().Foreground(lipgloss.Green), s)
}

// Yellow is for pending states.
func (p Palette) Yellow(s string) string {
	return p.render(lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Yellow), s)
}

// State colours a state or severity; the word itself has the same meaning.
func (p Palette) State(s string) string {
	switch s {
	case "pending", "ask", "warning", "medium", "timed_out":
		return p.Yellow(s)
	case "allowed", "allow", "consumed", "succeeded", "completed", "ready", "ok":
		return p.Green(s)
	case "denied", "deny", "error", "critical", "high", "failed", "revoked", "frozen", "refused", "ambiguous", "interrupted":
		return p.Red(s)
	}
	return s
}

// row styles the cells of a row; the first row is the header.
func (p Palette) row(n int) func(string) string {
	if n == 0 {
		return p.Bold
	}
	return p.State
}
