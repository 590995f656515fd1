package strictyaml

import "strings"

// openBracket returns the position of the last unclosed bracket of text. It only improves the
// message for a text that the library refuses at its end: it handles quotes and comments
// approximately.
func openBracket(text []byte) (line, column int, found bool) {
	var open [][2]int
	quote, before := rune(0), ' '
	line, column = 1, 0
	for _, r := range string(text) {
		if column++; r == '\n' {
			line, column = line+1, 0
		}
		begins := strings.ContainsRune(" \t\n[{,", before)
		switch {
		case quote == '#' && r == '\n', quote != 0 && quote != '#' && r == quote:
			quote = 0
		case quote != 0:
		case strings.ContainsRune(`"'#`, r) && begins:
			quote = r
		case strings.ContainsRune("[{", r) && begins:
			open = append(open, [2]int{line, column})
		case strings.ContainsRune("]}", r) && len(open) > 0:
			open = open[:len(open)-1]
		}
		before = r
	}
	if len(open) == 0 {
		return 0, 0, false
	}
	last := open[len(open)-1]
	return last[0], last[1], true
}
