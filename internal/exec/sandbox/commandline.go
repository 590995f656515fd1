package sandbox

import (
	"slices"
	"strings"
)

// options are those that may stand before the command of a program. One that
// is not here may take the next word as its value.
type options struct {
	// plain have no value, or one in the same word; valued have the next word.
	plain, valued []string
}

// before holds, by program, options that do not change what the command is.
// Left out are git's -c, --config-env and --exec-path: by them a command can get
// another name, git -c alias.status=push status.
var before = map[string]options{
	"git": {
		plain: []string{
			"-p", "--paginate", "-P", "--no-pager", "--no-replace-objects", "--bare", "--literal-pathspecs", "--glob-pathspecs", "--noglob-pathspecs",
			"--icase-pathspecs", "--no-optional-locks", "--no-lazy-fetch", "--no-advice",
		},
		valued: []string{"-C", "--git-dir", "--work-tree", "--namespace"},
	},
}

// command returns the first two arguments that are no options, "" for one that
// is not there or not certain. After an option that is not known, nothing is: it
// may take the next word as its value, and prog -x status push may be a push.
// Nothing is certain either of a program that is called by a name that is not
// its own: git-receive-pack is git, and no argument says what it does.
func (p Program) command(argv []string) (first, second string) {
	if p.Shebang == "" && Family(p.Called) != Family(p.Basename) {
		return "", ""
	}
	return Subcommand(p.Basename, argv)
}

// Subcommand returns the first two arguments of a program of that name which are no
// options, "" for one that is not there or not certain: push and origin of git -C a
// push origin.
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

// longestArgument is the longest that policy reads by itself, in bytes.
const longestArgument = 4 << 10

func operand(word string) bool {
	return word != "" && len(word) <= longestArgument && (word == "-" || word[0] != '-')
}

// skip returns what follows the known options at the beginning of a line.
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
