package shellfacts

import (
	"slices"
	"strings"

	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
)

// builtins are the commands that shells carry out themselves, and what each does that
// its words do not show. Those of "" do nothing of the kind, unless harmful says so.
// time, which is a word of bash's language and a program elsewhere, is not here.
var builtins = map[string]string{
	":": "", "true": "", "false": "", "echo": "", "printf": "", "test": "", "[": "", "pwd": "", "cd": "", "exit": "", "return": "", "break": "",
	"continue": "", "shift": "", "type": "", "kill": "", "wait": "", "set": "", "command": "", "exec": "",

	"eval": tool.ShellEval, "fc": tool.ShellEval,
	".": tool.ShellSource, "source": tool.ShellSource,
	"trap":  tool.ShellTrap,
	"alias": tool.ShellAlias, "unalias": tool.ShellAlias, "hash": tool.ShellAlias, "enable": tool.ShellAlias,
	"export": tool.ShellAssignment, "readonly": tool.ShellAssignment, "declare": tool.ShellAssignment, "typeset": tool.ShellAssignment,
	"local": tool.ShellAssignment, "nameref": tool.ShellAssignment, "read": tool.ShellAssignment, "unset": tool.ShellAssignment,
	"getopts": tool.ShellAssignment, "mapfile": tool.ShellAssignment, "readarray": tool.ShellAssignment,
	"let":     tool.ShellArithmetic,
	"builtin": tool.ShellWrapper,
	"bg":      tool.ShellBuiltin, "bind": tool.ShellBuiltin, "caller": tool.ShellBuiltin, "chdir": tool.ShellBuiltin, "compgen": tool.ShellBuiltin,
	"complete": tool.ShellBuiltin, "compopt": tool.ShellBuiltin, "dirs": tool.ShellBuiltin, "disown": tool.ShellBuiltin, "fg": tool.ShellBuiltin,
	"help": tool.ShellBuiltin, "history": tool.ShellBuiltin, "jobs": tool.ShellBuiltin, "logout": tool.ShellBuiltin, "popd": tool.ShellBuiltin,
	"pushd": tool.ShellBuiltin, "shopt": tool.ShellBuiltin, "suspend": tool.ShellBuiltin, "times": tool.ShellBuiltin, "ulimit": tool.ShellBuiltin,
	"umask": tool.ShellBuiltin,
}

func isBuiltin(name string) bool {
	_, is := builtins[name]
	return is
}

// harmful says what a builtin does with these arguments that it does not do with
// others, "" for nothing.
func harmful(words []string) string {
	args := words[1:]
	has := func(options ...string) bool {
		return slices.ContainsFunc(args, func(arg string) bool { return slices.Contains(options, arg) })
	}
	switch words[0] {
	case "printf":
		if len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "--" {
			return tool.ShellAssignment // printf -v name
		}
	case "test", "[":
		if has("-v", "-R") { // they evaluate the index of an array
			return tool.ShellArithmetic
		}
	case "wait":
		if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
			return tool.ShellAssignment // wait -p name
		}
	case "set":
		if slices.ContainsFunc(args, func(arg string) bool { return !slices.Contains(harmlessOptions, arg) }) {
			return tool.ShellBuiltin
		}
	}
	return ""
}

// harmlessOptions make a shell stop earlier or tell more.
var harmlessOptions = []string{"-e", "-u", "-x", "-eu", "-ue", "-ex", "-eux", "-o", "-eo", "-euo", "-euxo", "pipefail", "errexit", "nounset", "xtrace"}

// judge says what a command does beside starting the program of its name.
func (r *reading) judge(words []string, depth int) {
	name := words[0]
	if kind, is := builtins[name]; is {
		if kind == "" {
			kind = harmful(words)
		}
		if kind != "" {
			r.special.add(kind)
		}
	}
	switch {
	case name == "eval":
		r.text(strings.Join(words[1:], " "), depth)
	case name == "trap" && len(words) > 1:
		r.text(words[1], depth)
	case name == "alias":
		for _, word := range words[1:] {
			_, text, _ := strings.Cut(word, "=")
			r.text(text, depth)
		}
	case sandbox.IsShell(name):
		r.special.add(tool.ShellShell)
		r.shellCode(words, depth)
	case sandbox.IsInterpreter(name) && (sandbox.InlineCode(name, words) || sandbox.ReadsCodeFromStdin(name, words)):
		r.special.add(tool.ShellInlineCode)
	}
}

// shellCode reads what stands behind -c, or behind an option that has a c in it.
func (r *reading) shellCode(words []string, depth int) {
	code := false
	for _, word := range words[1:] {
		switch option := strings.HasPrefix(word, "-") || strings.HasPrefix(word, "+"); {
		case option:
			code = code || strings.ContainsAny(word, "cC")
		case code:
			r.text(word, depth)
		}
	}
}

// wraps reports whether a command starts another one that stands in its arguments.
func (r *reading) wraps(words []string) bool {
	name := words[0]
	switch name {
	case "builtin":
		return true
	case "command":
		return len(words) > 1 && words[1] != "-v" && words[1] != "-V"
	case "exec":
		return len(words) > 1
	}
	return sandbox.StartsOthers(name) || sandbox.InnerOf(name, words).Any()
}

// wrapped takes each argument of a wrapper for the beginning of the command that it
// starts. Which one is, its own options decide.
func (r *reading) wrapped(words []string, all bool, depth int) {
	for _, text := range sandbox.InnerOf(words[0], words).Texts {
		r.text(text, depth)
	}
	for i := 1; i < min(len(words), mostWords); i++ {
		word := words[i]
		switch {
		case strings.ContainsAny(word, " \t\n;|&$`()"):
			r.text(word, depth)
		case word != "" && !strings.HasPrefix(word, "-") && !strings.Contains(word, "="):
			r.start(words[i:], all)
			r.judge(words[i:], depth)
			if word != "." || isBuiltin(words[0]) { // no program starts the builtin
				r.variablesOf(words[i:], all)
			}
		}
	}
	if len(words) > mostWords {
		r.tokens(strings.Join(words[mostWords:], " "))
	}
}
