package builtin

import (
	"fmt"
	"slices"
	"strings"

	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
)

// shownCommand is the length of a command line in a summary, in characters.
const shownCommand = 120

// commandLine formats the command line of a call. A long line is truncated at its end and states
// the number of missing characters. A gap in the middle could hide an argument between two that
// look complete.
func commandLine(argv []string, most int) string {
	line := []rune(text.ShellQuote(argv))
	if len(line) <= most {
		return string(line)
	}
	limit := most - len(" ... (1000000 more characters)")
	return fmt.Sprintf("%s ... (%d more characters)", string(line[:limit]), len(line)-limit)
}

// variables returns the names of the call's variables that are not on the allow list, sorted.
func (c programCall) variables() []string {
	var names []string
	for _, pair := range command.Unlisted(c.env) {
		name, _, _ := strings.Cut(pair, "=")
		names = append(names, name)
	}
	if c.line != nil {
		names = append(names, c.line.Env...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// starts returns the commands that the arguments make the program start. It includes the
// commands that git may run because of a repository of the workspace, also in a shell line. It
// does not search for repositories for a call from process.named, which has no root.
func (c programCall) starts() []string {
	starts := command.Starts(c.program.Names(), c.in.Argv)
	var programs []command.Started
	if c.line != nil {
		programs = c.line.Programs
	} else {
		for _, name := range c.program.Names() {
			programs = append(programs, command.Started{Argv: c.in.Argv, Basename: name})
		}
	}
	if c.root != "" && command.ObeysRepository(c.root, c.cwd, programs...) && !slices.Contains(starts, tool.StartsUnknown) {
		starts = append([]string{tool.StartsUnknown}, starts...)
	}
	return starts
}

// more returns the reason why the call may run more than its command line shows, "" if it does
// not.
func (c programCall) more() string {
	if names := c.variables(); len(names) > 0 {
		return "it sets " + few(names) + ", which may change what runs"
	}
	if starts := c.starts(); len(starts) > 0 {
		return "its arguments start other programs: " + few(starts)
	}
	return ""
}

// few lists the first names; unknown ones are counted as others.
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

// moreNotes lists the variables that are not on the allow list, with their values, and the inner
// commands.
func (c programCall) moreNotes() []string {
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

// shownVariables formats the call's variables that are not on the allow list, for display.
func (c programCall) shownVariables() []string {
	pairs := command.Unlisted(c.env)
	for i, pair := range pairs {
		pairs[i] = text.Ellipsis(tool.RedactText(pair), shownVariable)
	}
	return pairs
}

// shownVariable is the displayed length of a variable in bytes; the arguments contain the whole
// value.
const shownVariable = 256
