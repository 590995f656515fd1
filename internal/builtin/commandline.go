package builtin

import "palyra/internal/commandline"

// shownCommand is how many characters of a command line a summary shows.
const shownCommand = 120

// commandLine is the command line of a call. A long one loses its middle, since
// its beginning says what runs and its end often what it is done to:
// rm -rf a b c ... y z.
func commandLine(argv []string, most int) string {
	line := []rune(commandline.Quote(argv))
	if len(line) <= most {
		return string(line)
	}
	const gap = " ... "
	tail := (most - len(gap)) / 3
	return string(line[:most-len(gap)-tail]) + gap + string(line[len(line)-tail:])
}
