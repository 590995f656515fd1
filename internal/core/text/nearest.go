package text

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Nearest returns the name that a person most likely meant by word, or "" if none is close: at
// most two edits, and at most half the length of the name.
func Nearest(word string, names []string) string {
	best, found := 3, ""
	for _, name := range names {
		d := distance([]rune(word), []rune(name))
		if d < best && 2*d < len([]rune(name))+1 {
			best, found = d, name
		}
	}
	return found
}

// NearestThree returns at most three names that are nearest to word, nearest first. A name that
// contains the word, or that the word contains, comes first.
func NearestThree(word string, names []string) []string {
	far := func(name string) int {
		if word != "" && (strings.Contains(name, word) || strings.Contains(word, name)) {
			return 0
		}
		return distance([]rune(word), []rune(name))
	}
	list := slices.Clone(names)
	slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	return list[:min(len(list), 3)]
}

// distance returns the number of insertions, deletions, replacements and swaps of neighbours
// between two words (optimal string alignment). It does not compare long words, but returns a
// large distance.
func distance(a, b []rune) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// mostNamed is the number of names that a message lists in full.
const mostNamed = 8

// NearestHelp returns a "Did you mean" sentence for a word that should be one of known. Without
// a near name, it lists all known names if they are few, or else the three nearest.
func NearestHelp(word string, known []string) string {
	if best := Nearest(word, known); best != "" {
		return "Did you mean " + best + "?"
	}
	switch {
	case len(known) == 0:
		return "There is none."
	case len(known) <= mostNamed:
		return "Use one of: " + strings.Join(known, ", ") + "."
	}
	return fmt.Sprintf("The nearest of %d are: %s.", len(known), strings.Join(NearestThree(word, known), ", "))
}
