package cli

import "charm.land/lipgloss/v2"

// palette styles words on a terminal; the zero palette leaves them as they
// are. Only the sixteen colours that a terminal's own theme defines are used.
type palette struct{ on bool }

func paletteFor(on bool) palette { return palette{on: on} }

func (p palette) render(style lipgloss.Style, s string) string {
	if !p.on || s == "" {
		return s
	}
	return style.Render(s)
}

func (p palette) bold(s string) string { return p.render(lipgloss.NewStyle().Bold(true), s) }
func (p palette) dim(s string) string  { return p.render(lipgloss.NewStyle().Faint(true), s) }

func (p palette) red(s string) string {
	return p.render(lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Red), s)
}

func (p palette) green(s string) string {
	return p.render(lipgloss.NewStyle().Foreground(lipgloss.Green), s)
}

func (p palette) yellow(s string) string {
	return p.render(lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Yellow), s)
}

// state colours a state or severity; the word itself says the same.
func (p palette) state(s string) string {
	switch s {
	case "pending", "ask", "warning", "medium", "timed_out":
		return p.yellow(s)
	case "allowed", "allow", "consumed", "succeeded", "completed", "ready", "ok":
		return p.green(s)
	case "denied", "deny", "error", "critical", "high", "failed", "revoked", "frozen", "refused", "ambiguous", "interrupted":
		return p.red(s)
	}
	return s
}
