package hook

import (
	"path"
	"slices"
	"strings"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/shellwords"
)

// maybeWritten returns the words of a shell command that may name a written file: the targets
// of redirects, and the arguments of commands that do not only read. It returns the whole line
// if it cannot be parsed, or if one command may pass a name on to another.
func maybeWritten(line string) []string {
	whole := []string{line}
	script, err := shellwords.Parse(shellwords.Bash, line)
	if err != nil {
		return whole
	}
	var texts, directories []string
	for _, r := range script.Redirects {
		target, known := r.Target.Literal()
		switch {
		case r.Writes && !known:
			return whole
		case r.Writes:
			texts = append(texts, target)
		}
	}
	for _, c := range script.Commands {
		words, all := c.Argv()
		switch {
		case len(words) > 0 && slices.Contains([]string{"cd", "pushd"}, words[0]):
			directories = append(directories, words[1:]...)
		case onlyReads(words, all):
		case all && command.IsShell(path.Base(words[0])) && len(words) > 2 && clustered(words[1:2], 'c') && !script.Pipes && len(script.Documents) == 0:
			texts = append(texts, maybeWritten(words[2])...)
		case !all || script.Pipes || len(script.Documents) > 0 || len(script.Features) > 0:
			return whole
		default:
			texts = append(texts, targets(words)...)
		}
	}
	if len(texts) == 0 {
		return nil
	}
	return append(texts, directories...) // written paths may be relative to them
}

// readers are programs and builtins that write to no file that an argument names.
var readers = strings.Fields(`cat ls dir head tail grep egrep fgrep zgrep wc stat file diff cmp comm cksum md5sum b2sum
	sha1sum sha224sum sha256sum sha384sum sha512sum od hexdump strings nl tac rev cut tr fold column paste join basename dirname
	realpath readlink du df jq echo printf true false : test [ [[ pwd which type date id whoami uname sleep
	export declare typeset local readonly unset set shift exit return break continue wait`)

// gitReaders are the subcommands of git that do not change the files of the working tree.
var gitReaders = strings.Fields(`add commit status diff log show blame grep ls-files ls-tree cat-file rev-parse rev-list
	describe check-ignore check-attr shortlog show-ref fetch push tag branch remote`)

// writers are the options with which a reading program writes a file or starts another program.
var writers = map[string][]string{
	"rg": {"--pre"}, "sort": {"-o", "--o", "--co"}, "tree": {"-o"}, "find": {"-delete", "-exec", "-ok", "-fprint", "-fls"},
	"sed": {"-i", "--i"}, "git": {"--output", "--ext-diff", "-c", "--exec"},
}

// onlyReads reports whether a command writes to no file that its arguments name. words are the
// words before the first unknown one.
func onlyReads(words []string, all bool) bool {
	if len(words) == 0 {
		return false
	}
	name := path.Base(words[0])
	if slices.Contains(readers, name) {
		return true
	}
	for _, option := range writers[name] {
		if slices.ContainsFunc(words[1:], func(word string) bool { return strings.HasPrefix(word, option) }) {
			return false
		}
	}
	switch name {
	case "git":
		subcommand, _ := command.Subcommand(name, words)
		return slices.Contains(gitReaders, subcommand)
	case "sed", "sort": // their options can be combined
		return all && !clustered(words[1:], map[string]rune{"sed": 'i', "sort": 'o'}[name]) && !command.InnerOf(name, words).Any()
	case "rg", "tree", "find":
		return all
	case "uniq", "xxd":
		return all && operands(words[1:]) < 2
	}
	return false
}

// clustered reports whether a group of single-letter options contains one of the letters.
func clustered(args []string, letter rune) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return len(arg) > 1 && arg[0] == '-' && arg[1] != '-' && strings.ContainsRune(arg, letter)
	})
}

func operands(args []string) (count int) {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			count++
		}
	}
	return count
}

// targets returns the arguments of a command that may name its destination. For cp it returns
// only the last one, unless an option names the target.
func targets(words []string) []string {
	args := words[1:]
	if path.Base(words[0]) == "cp" && len(args) > 1 && !slices.ContainsFunc(args, func(arg string) bool {
		return strings.HasPrefix(arg, "--t") || clustered([]string{arg}, 't')
	}) {
		return args[len(args)-1:]
	}
	return args
}
