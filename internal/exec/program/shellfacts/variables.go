package shellfacts

import (
	"slices"
	"strings"

	"palyra/internal/core/tool"
	"palyra/internal/exec/program/shellwords"
	"palyra/internal/exec/sandbox"
)

// setAny are constructs that may set any variable.
var setAny = []string{tool.ShellArithmetic, tool.ShellCoprocess, tool.ShellOther}

// passing are launchers that set no variables for the command that they start.
var passing = []string{
	"nice", "ionice", "chrt", "taskset", "nohup", "setsid", "stdbuf", "timeout", "time", "xargs", "watch", "command", "builtin", "exec",
}

// exporting are builtins whose arguments are variables, with or without a value.
var exporting = []string{"export", "readonly", "declare", "typeset", "local"}

// settings are those that the shell itself makes. A variable counts whether or not it is
// exported: it may be so already.
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
	case !known || !sandbox.Listed(name, value):
		r.env.add(name)
	}
}

// variables are those that a command sets by its arguments, beside the settings of the
// script.
func (r *reading) variables(c shellwords.Command) {
	words, all := c.Argv()
	switch {
	case c.Declares:
	case len(words) == 0: // its name is expanded, and may be export
		r.env.add(tool.EnvUnknown)
	default:
		r.variablesOf(words, all)
	}
}

// variablesOf are those of export A=b, of env A=b ls, and of what a program that starts
// others may give these.
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
	case kind == tool.ShellEval, kind == tool.ShellTrap, kind == tool.ShellAlias, sandbox.IsShell(name):
		// Their text is read where it is known.
		if !all || sandbox.ReadsCodeFromStdin(name, words) {
			r.env.add(tool.EnvUnknown)
		}
	case r.wraps(words):
		r.passed(words, all)
	}
}

// exported are the variables of export and its siblings. Of read and others it is not
// known which ones they set.
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

// passed are the variables that a launcher gives to what it starts.
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

// passes reports whether a program gives what it starts no variables but those that stand
// in its arguments as A=b.
func passes(words []string) bool {
	switch family := sandbox.Family(words[0]); family {
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

// harmlessOfEnv are options of env that set no variable; -S splits a text that may.
var harmlessOfEnv = []string{"-i", "--ignore-environment", "-", "-0", "--null", "-v", "--debug"}
