package command

import (
	"strings"

	"palyra/internal/nearest"
)

// Nearest is a did-you-mean for a word that should be one of a few, or the
// list of them when none is near.
func Nearest(word string, known []string) string {
	if best := nearest.Of(word, known); best != "" {
		return "Did you mean " + best + "?"
	}
	return "Use one of: " + strings.Join(known, ", ") + "."
}
