package command

import (
	"path"
	"slices"
	"strings"

	"palyra/internal/core/lazyregexp"
	"palyra/internal/core/tool"
)

// Inner is the set of commands that a program starts because of its arguments.
//
// Refusing programs with inner commands was rejected: it would refuse `uv run pytest`. Subcommands
// are listed if they start nothing, because programs add others and accept prefixes. Options are
// too many for a list and are judged by their names (--strip-program) in every program. The names
// config, require, import, loader and script are ignored: ordinary lines contain them, and they
// name files of the project.
//
// A directory for `git -C` is harmless unless it, or a directory of the workspace above it, is
// a repository that is not called .git. The configuration of such a repository can be among the
// files of the project.
type Inner struct {
	// Commands are the command lines that are certain.
	Commands [][]string
	// Texts are shell lines, or may name a command.
	Texts []string
	// Unknown is true if the program may start more than Commands.
	Unknown bool
}

// Any reports whether the program may start another one.
func (i Inner) Any() bool { return i.Unknown || len(i.Commands)+len(i.Texts) > 0 }

func (i *Inner) add(other Inner) {
	i.Commands = append(i.Commands, other.Commands...)
	i.Texts = append(i.Texts, other.Texts...)
	i.Unknown = i.Unknown || other.Unknown || len(other.Texts) > 0
}

// InnerOf returns the commands that a program of that name starts with argv, whose first word is
// the program. Launchers and shells, which always start another program, are excluded.
func InnerOf(basename string, argv []string) Inner {
	var inner Inner
	if len(argv) == 0 || StartsOthers(basename) || IsShell(basename) {
		return inner
	}
	family, args := wrapperFamily(basename), argv[1:]
	if sub, ok := strings.CutPrefix(family, "git-"); ok && gitKnows(sub) {
		family, args = "git", append([]string{sub}, args...)
	}
	if len(args) == 1 && slices.Contains([]string{"--version", "--help", "-h", "-V"}, args[0]) || isProxy(family, argv[0]) {
		return inner
	}
	inner.add(innerOfNames(family, args))
	inner.Unknown = inner.Unknown || runsArguments.has(family) || strings.HasPrefix(family, "qemu-") && family != "qemu-img"
	if f, ok := families[family]; ok {
		inner.add(f.inner(args))
	}
	if o, ok := optionsOf[family]; ok {
		inner.add(o.inner(args))
	}
	if read, ok := readers[family]; ok {
		inner.add(read(args))
	}
	return inner
}

// isProxy reports whether a program acts as the program by whose name it is called, as rustup
// does for cargo: the tables for its own name then do not apply.
func isProxy(family, called string) bool {
	return slices.Contains([]string{"rustup", "mise"}, family) && wrapperFamily(called) != family
}

// deepestInner is the maximum nesting of programs that start one another.
const deepestInner = 4

// Starts names the commands that argv makes a program of one of the names start, as in
// tool.ExecFacts.
func Starts(names, argv []string) []string {
	var inner Inner
	for _, name := range names {
		inner.add(InnerOf(name, argv))
	}
	out := inner.names(deepestInner)
	slices.Sort(out)
	return slices.Compact(out)
}

// names returns the commands and the commands that these start.
func (i Inner) names(depth int) []string {
	var out []string
	if i.Unknown || len(i.Texts) > 0 {
		out = append(out, tool.StartsUnknown)
	}
	for _, argv := range i.Commands {
		name := argv[0]
		lower := strings.ToLower(path.Base(name)) // some file systems ignore case
		out = append(out, name, path.Base(name), lower, strings.TrimSuffix(lower, ".exe"))
		switch {
		case depth == 0, wrapperFamily(name) == "git" && slices.Contains(argv, "-C"), // git's directories are not inspected here
			StartsOthers(name), IsShell(name), InlineCode(name, argv), ReadsCodeFromStdin(name, argv):
			out = append(out, tool.StartsUnknown)
		default:
			out = append(out, InnerOf(name, argv).names(depth-1)...)
		}
	}
	return out
}

// target matches the target machine in front of a compiler's name.
var target = lazyregexp.New(`^(x86_64|aarch64|arm[a-z0-9]*|i[3-6]86|riscv64|powerpc64le|s390x)-((pc|unknown|none|w64|apple|linux)-)*(linux|gnu[a-z0-9]*|musl[a-z]*|eabi[a-z]*|elf|mingw32|android[a-z0-9]*)-`)

// wrapperFamily returns the Family of a program for the tables below: without a version and
// without the target machine.
func wrapperFamily(basename string) string {
	family := Family(basename)
	if at := target.FindStringIndex(family); at != nil {
		family = family[at[1]:]
	}
	if !isWrapper(family) {
		family = strings.TrimRight(strings.TrimRight(family, "0123456789."), "-")
	}
	if other, ok := sameWrapper[family]; ok {
		return other
	}
	return family
}

func isWrapper(family string) bool {
	_, subcommands := families[family]
	_, options := optionsOf[family]
	_, reader := readers[family]
	return subcommands || options || reader || sameWrapper[family] != "" || runsArguments.has(family)
}
