package shellfacts

import (
	"slices"
	"strings"

	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/shellwords"
)

// setAny are constructs that may set any variable.
var setAny = []string{tool.ShellArithmetic, tool.ShellCoprocess, tool.ShellOther}

// passing are launchers that set no variables for the command that they start.
var passing = []string{
	"nice", "ionice", "chrt", "taskset", "nohup", "setsid", "stdbuf", "timeout", "time", "xargs", "watch", "command", "builtin", "exec",
}

// exporting are builtins whose arguments are variables, with or without a value.
var exporting = []string{"export", "readonly", "declare", "typeset", "local"}

// settings records variables that the shell itself sets. A variable counts even without export,
// because it may already be exported.
func (r *reading) settings(list []shellwords.Setting) {
	for _, s := range list {
		value, known := s.Value.Literal()
		r.set(s.Name, value, known)
	}
}

// set adds a variable unless it is on the allow list.
func (r *reading) set(name, value string, known bool) {
	switch {
	case name == "":
		r.env.add(tool.EnvUnknown)
	case !known || !command.Listed(name, value):
		r.env.add(name)
	}
}

// variables records the variables that a command sets by its arguments, in addition to the
// settings of the script.
func (r *reading) variables(c shellwords.Command) {
	words, all := c.Argv()
	switch {
	case c.Declares:
	case len(words) == 0: // its name is an expansion, and may be export
		r.env.add(tool.EnvUnknown)
	default:
		r.variablesOf(words, all)
	}
}

// variablesOf records the variables of export A=b, of env A=b ls, and of programs that start
// others with additional variables.
func (r *reading) variablesOf(words []string, all bool) {
	name := words[0]
	kind := builtins[name]
	if kind == "" {
		kind = harmful(words)
	}
	switch {
	case kind == tool.ShellAssignment:
		r.exported(words, all)
	case kind == tool.ShellSource:
		r.env.add(tool.EnvUnknown)
	case kind == tool.ShellEval, kind == tool.ShellTrap, kind == tool.ShellAlias, command.IsShell(name):
		// A known text is parsed elsewhere.
		if !all || command.ReadsCodeFromStdin(name, words) {
			r.env.add(tool.EnvUnknown)
		}
	case r.wraps(words):
		r.passed(words, all)
	}
}

// exported records the variables of export and similar builtins. The variables set by read and
// others are unknown.
func (r *reading) exported(words []string, all bool) {
	if !all || !slices.Contains(exporting, words[0]) {
		r.env.add(tool.EnvUnknown)
		return
	}
	for _, word := range words[1:] {
		name, value, assigned := strings.Cut(word, "=")
		if strings.HasPrefix(word, "-") {
			name = ""
		}
		r.set(name, value, assigned)
	}
}

// passed records the variables that a launcher passes to the started command.
func (r *reading) passed(words []string, all bool) {
	if !all || !passes(words) {
		r.env.add(tool.EnvUnknown)
		return
	}
	for _, word := range words[1:] {
		if name, value, assigned := strings.Cut(word, "="); assigned && !strings.HasPrefix(word, "-") {
			r.set(name, value, true)
		}
	}
}

// passes reports whether a launcher passes no variables other than those in its arguments as A=b.
func passes(words []string) bool {
	switch family := command.Family(words[0]); family {
	case "env":
		return !slices.ContainsFunc(words[1:], func(word string) bool {
			return strings.HasPrefix(word, "-") && !slices.Contains(harmlessOfEnv, word)
		})
	case "find", "fd", "fdfind":
		return true
	default:
		return slices.Contains(passing, family)
	}
}

// harmlessOfEnv are options of env that set no variable; -S splits a text that may set one.
var harmlessOfEnv = []string{"-i", "--ignore-environment", "-", "-0", "--null", "-v", "--debug"}
