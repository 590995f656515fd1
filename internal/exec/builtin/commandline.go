package builtin

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
)

// shownCommand is how many characters of a command line a summary shows.
const shownCommand = 120

// commandLine is the command line of a call. A long one is cut at its end, and says how much is
// missing. A gap in the middle could hide an argument between two that look complete.
func commandLine(argv []string, most int) string {
	line := []rune(text.ShellQuote(argv))
	if len(line) <= most {
		return string(line)
	}
	shown := most - len(" ... (1000000 more characters)")
	return fmt.Sprintf("%s ... (%d more characters)", string(line[:shown]), len(line)-shown)
}

// variables are the names of those that the call sets and that are not on the allow list,
// sorted.
func (c command) variables() []string {
	var names []string
	for _, pair := range sandbox.Unlisted(c.env) {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	if c.line != nil {
		names = append(names, c.line.Env...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// starts are the commands that the arguments have the program start. Git may start some
// by a repository of the workspace, too, also in a line for a shell; of a call as its
// arguments give it (process.named), repositories are not looked for.
func (c command) starts() []string {
	starts := sandbox.Starts(c.program.Names(), c.in.Argv)
	var programs []sandbox.Started
	if c.line != nil {
		programs = c.line.Programs
	} else {
		for _, name := range c.program.Names() {
			programs = append(programs, sandbox.Started{Argv: c.in.Argv, Basename: name})
		}
	}
	if c.root != "" && sandbox.ObeysRepository(c.root, c.cwd, programs...) && !slices.Contains(starts, tool.StartsUnknown) {
		starts = append([]string{tool.StartsUnknown}, starts...)
	}
	return starts
}

// more says why the call may run more than its command line shows, "" where it does not.
func (c command) more() string {
	if names := c.variables(); len(names) > 0 {
		return "it sets " + few(names) + ", which may change what runs"
	}
	if starts := c.starts(); len(starts) > 0 {
		return "its arguments start other programs: " + few(starts)
	}
	return ""
}

// few names some of many; unknown ones are others.
func few(names []string) string {
	const most = 5
	names = slices.Clone(names)
	if i := slices.Index(names, tool.EnvUnknown); i >= 0 {
		names = append(slices.Delete(names, i, i+1), "some that are not known")
	}
	if len(names) > most {
		names = append(names[:most], "more")
	}
	return strings.Join(names, ", ")
}

// moreNotes show the variables that are not on the allow list, with their values, and the
// inner commands.
func (c command) moreNotes() []string {
	var notes []string
	if pairs := c.shownVariables(); len(pairs) > 0 {
		notes = append(notes, "The call sets variables that may change what runs: "+text.ShellQuote(pairs)+".")
	}
	if c.line != nil && len(c.line.Env) > 0 {
		notes = append(notes, "The line sets variables that may change what runs: "+few(c.line.Env)+".")
	}
	if starts := c.starts(); len(starts) > 0 {
		notes = append(notes, "The arguments have the program start "+few(starts)+".")
	}
	return notes
}

// shownVariables are those of the call that are not on the allow list, as people see them.
func (c command) shownVariables() []string {
	pairs := sandbox.Unlisted(c.env)
	for i, pair := range pairs {
		pairs[i] = text.Ellipsis(tool.RedactText(pair), shownVariable)
	}
	return pairs
}

// shownVariable is how many bytes of a variable a note shows; the arguments have all.
const shownVariable = 256
