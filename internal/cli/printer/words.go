package printer

import (
	"strings"
)

// Sentence returns s with a full stop, so that a sentence may follow it.
func Sentence(s string) string {
	if s == "" || strings.HasSuffix(s, ".") || strings.HasSuffix(s, "?") || strings.HasSuffix(s, ":") {
		return s
	}
	return s + "."
}

// FirstLine returns s up to the end of its first line.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// Yes is yes or no.
func Yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// WithNewline returns a text with a newline at its end; an empty text stays empty.
func WithNewline(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// OnBehalf returns the actor, and the owner if it is another principal.
func OnBehalf(who, owner string) string {
	if owner == "" || owner == who {
		return who
	}
	return who + " on behalf of " + owner
}
