package command

import (
	"fmt"
	"strings"

	"palyra/internal/nearest"
)

// mostNamed is how many names a message lists whole.
const mostNamed = 8

// Nearest is a did-you-mean for a word that should be one of some. When none is near it names
// all of a few, and the three nearest of many.
func Nearest(word string, known []string) string {
	if best := nearest.Of(word, known); best != "" {
		return "Did you mean " + best + "?"
	}
	if len(known) <= mostNamed {
		return "Use one of: " + strings.Join(known, ", ") + "."
	}
	return fmt.Sprintf("The nearest of %d are: %s.", len(known), strings.Join(nearest.Three(word, known), ", "))
}
