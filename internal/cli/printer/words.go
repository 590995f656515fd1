package printer

import (
	"fmt"
	"strings"
)

// Plural is a number with what it counts.
func Plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if strings.HasSuffix(one, "y") {
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(one, "y"))
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// FirstLine is s up to the end of its first line.
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

// WithNewline ends a text that has one with the end of a line.
func WithNewline(s string) string {
	if s == "" || strings.HasSuffix(s, "\n") {
		return s
	}
	return s + "\n"
}

// OnBehalf names who acts, and for whom when that is somebody else.
func OnBehalf(who, owner string) string {
	if owner == "" || owner == who {
		return who
	}
	return who + " on behalf of " + owner
}
