package command

import (
	"slices"
	"strings"
)

// options are the options that may precede the command of a program. An unlisted option may take
// the next word as its value.
type options struct {
	// plain options have no value, or one in the same word; valued options take the next word.
	plain, valued []string
}

// before lists, by program, options that do not change the command. git's -c, --config-env and
// --exec-path are excluded: they can redefine a command, as in git -c alias.status=push status.
var before = map[string]options{
	"git": {
		plain: []string{
			"-p", "--paginate", "-P", "--no-pager", "--no-replace-objects", "--bare", "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs",
			"--icase-pathspecs", "--no-optional-locks", "--no-lazy-fetch", "--no-advice",
		},
		valued: []string{"-C", "--git-dir", "--work-tree", "--namespace"},
	},
}

// command returns the first two arguments that are not options, "" for a missing or uncertain
// one. After an unknown option all are uncertain, because it may take the next word as its value:
// prog -x status push may be a push. They are also uncertain for a program called by a name other
// than its own: git-receive-pack is git, and no argument determines its command.
func (p Program) command(argv []string) (first, second string) {
	if p.Shebang == "" && Family(p.Called) != Family(p.Basename) {
		return "", ""
	}
	return Subcommand(p.Basename, argv)
}

// Subcommand returns the first two arguments of a program of that name that are not options, ""
// for a missing or uncertain one: push and origin for git -C a push origin.
func Subcommand(basename string, argv []string) (first, second string) {
	rest := before[basename].skip(argv[1:])
	if len(rest) == 0 || !operand(rest[0]) {
		return "", ""
	}
	if len(rest) > 1 && operand(rest[1]) {
		second = rest[1]
	}
	return rest[0], second
}

// longestArgument is the maximum length of an argument for policies, in bytes.
const longestArgument = 4 << 10

func operand(word string) bool {
	return word != "" && len(word) <= longestArgument && (word == "-" || word[0] != '-')
}

// skip returns the rest of a line after the known options at its beginning.
func (o options) skip(args []string) []string {
	for len(args) > 0 {
		name, _, joined := strings.Cut(args[0], "=")
		long := strings.HasPrefix(name, "--")
		switch {
		case slices.Contains(o.plain, args[0]), joined && long && slices.Contains(o.valued, name):
			args = args[1:]
		case slices.Contains(o.valued, args[0]) && len(args) > 1:
			args = args[2:]
		default:
			return args
		}
	}
	return nil
}
