package config

// nearest returns the name that was most likely meant by word: the one with
// the fewest edits, at most a third of its length and at least one.
func nearest(word string, names []string) string {
	best, found := 0, ""
	for _, name := range names {
		d := edits(word, name)
		if d <= max(1, len(name)/3) && (found == "" || d < best) {
			best, found = d, name
		}
	}
	return found
}

// edits is the Levenshtein distance in bytes; keys are ASCII.
func edits(a, b string) int {
	const longest = 128
	if len(a) > longest || len(b) > longest {
		return longest
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
