package shellfacts

import (
	"slices"
	"strings"

	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
)

// builtins are the shell builtins, each with its effect that is not visible in its words. ""
// means no such effect unless harmful returns one. time is omitted, because it is a keyword of
// bash and a program elsewhere.
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

// harmful returns the additional effect of a builtin with these arguments, "" for none.
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

// harmlessOptions make a shell stop earlier or print more.
var harmlessOptions = []string{"-e", "-u", "-x", "-eu", "-ue", "-ex", "-eux", "-o", "-eo", "-euo", "-euxo", "pipefail", "errexit", "nounset", "xtrace"}

// judge records the effects of a command other than starting the program of its name.
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
	case command.IsShell(name):
		r.special.add(tool.ShellShell)
		r.shellCode(words, depth)
	case command.IsInterpreter(name) && (command.InlineCode(name, words) || command.ReadsCodeFromStdin(name, words)):
		r.special.add(tool.ShellInlineCode)
	}
}

// shellCode parses the text after -c, or after an option that contains a c.
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

// wraps reports whether a command starts another one from its arguments.
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
	return command.StartsOthers(name) || command.InnerOf(name, words).Any()
}

// wrapped treats each argument of a wrapper as a possible beginning of the started command. The
// wrapper's own options determine the actual one.
func (r *reading) wrapped(words []string, all bool, depth int) {
	for _, text := range command.InnerOf(words[0], words).Texts {
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
			if word != "." || isBuiltin(words[0]) { // programs do not start builtins
				r.variablesOf(words[i:], all)
			}
		}
	}
	if len(words) > mostWords {
		r.tokens(strings.Join(words[mostWords:], " "))
	}
}
