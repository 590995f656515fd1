// Package shellfacts says what policies read of a line for a shell: which commands
// stand in it, and what in it is not known before it runs. It errs on one side: a
// name that may be a command is one, so that a rule against a command holds for every
// line that could run it, and what is not certain makes the line unknown, so that no
// rule which allows some commands holds for it.
package shellfacts

import (
	"maps"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/shellwords"
	"palyra/internal/exec/sandbox"
)

// Bounds of what is read beside the line itself.
const (
	// longestLines bounds Lines, in bytes: as long as the one command line of
	// process.run.
	longestLines = 16 << 10
	// mostTexts bounds the texts within texts, such as that of sh -c, and deepest how
	// they are nested.
	mostTexts, deepest = 64, 4
	// mostWords bounds the words of a wrapper that are looked at one by one.
	mostWords = 64
)

// Line is what was read in a line.
type Line struct {
	Facts tool.ShellFacts
	// Problem says why the line cannot be read, "" where it can.
	Problem string
	// Digest is of all that was read: "sha256:<hex>". Form is the line in one form for
	// all that differ in spaces and comments, "" for one that cannot be read.
	Digest, Form string
	// Programs are the commands whose words are all known, for the files that they
	// name, and Sources the files that redirects read from.
	Programs []sandbox.Started
	Sources  []string
	// Env are the variables that the line may set for what it runs, and that are not on
	// the allow list, sorted; tool.EnvUnknown where it may set any.
	Env []string
}

// Read reads a line that the gateway itself gives to a shell. origin says where a
// program of that name comes from: one of the origins of tool.ExecFacts, or
// tool.OriginUnknown.
func Read(dialect shellwords.Dialect, text string, origin func(name string) string) Line {
	return read(dialect, text, origin, false)
}

// Claim is what policies read of a line that somebody else runs, by the word of who
// proposes it: the line that runs, or its shell, may be another. Such a line is never
// known, so that only rules that tighten rest on it.
func Claim(dialect shellwords.Dialect, text string) *tool.ShellFacts {
	line := read(dialect, text, func(string) string { return tool.OriginUnknown }, true)
	return &line.Facts
}

func read(dialect shellwords.Dialect, text string, origin func(string) string, claimed bool) Line {
	r := reading{
		dialect: dialect, origin: origin,
		special: set{}, commands: set{}, subcommands: set{}, lines: set{}, origins: set{}, reads: set{}, writes: set{}, env: set{},
	}
	script, err := shellwords.Parse(dialect, text)
	if err != nil {
		r.line.Problem = err.Error()
		r.tokens(text)
	} else {
		r.line.Form = script.Form
		r.script(script)
	}
	r.line.Digest, err = digest(script, r.line.Problem)
	if err != nil { // never: all of it is text, and is UTF-8
		r.line.Problem = "its digest cannot be made"
	}
	r.conclude(script, claimed)
	return r.line
}

func digest(script shellwords.Script, problem string) (string, error) {
	if problem != "" {
		return canonical.DigestOf(map[string]string{"problem": problem})
	}
	return canonical.DigestOf(script)
}

type set map[string]bool

func (s set) add(texts ...string) {
	for _, text := range texts {
		s[text] = true
	}
}

func (s set) sorted() []string { return slices.Sorted(maps.Keys(s)) }

// reading collects what becomes facts.
type reading struct {
	dialect shellwords.Dialect
	origin  func(string) string
	line    Line

	special, commands, subcommands, lines, origins, reads, writes, env set
	lineBytes, texts                                                   int
}

// conclude says what is known as a whole.
func (r *reading) conclude(script shellwords.Script, claimed bool) {
	f := &r.line.Facts
	f.Dialect, f.Claimed, f.Parsed, f.Dynamic = string(r.dialect), claimed, r.line.Problem == "", script.Dynamic
	f.Known = f.Parsed && !f.Dynamic && !claimed && len(r.special) == 0
	if !f.Known {
		r.commands.add(tool.ShellUnknown)
		r.subcommands.add(tool.ShellUnknown)
		r.origins.add(tool.OriginUnknown)
	}
	if !f.Known || r.lineBytes > longestLines {
		r.lines.add(tool.ShellUnknown)
	}
	if r.lineBytes > longestLines {
		r.lines = set{tool.ShellUnknown: true}
	}
	if len(r.writes) > 0 {
		r.commands.add(tool.ShellWrites)
		r.subcommands.add(tool.ShellWrites)
		r.lines.add(tool.ShellWrites)
	}
	f.Special, f.Commands, f.Subcommands, f.Lines = r.special.sorted(), r.commands.sorted(), r.subcommands.sorted(), r.lines.sorted()
	f.Origins, f.Reads, f.Writes = r.origins.sorted(), r.reads.sorted(), r.writes.sorted()
	if !f.Parsed || slices.ContainsFunc(setAny, func(special string) bool { return r.special[special] }) {
		r.env.add(tool.EnvUnknown)
	}
	r.line.Env = r.env.sorted()
}

// features are what shellwords calls things.
var features = map[shellwords.Feature]string{
	shellwords.Assignment: tool.ShellAssignment, shellwords.Arithmetic: tool.ShellArithmetic, shellwords.Coprocess: tool.ShellCoprocess,
	shellwords.Function: tool.ShellFunction, shellwords.Other: tool.ShellOther,
}

// script is the line itself.
func (r *reading) script(s shellwords.Script) {
	for _, f := range s.Features {
		r.special.add(features[f])
	}
	for _, redirect := range s.Redirects {
		r.redirect(redirect)
	}
	r.settings(s.Settings)
	for _, c := range s.Commands {
		words, all := c.Argv()
		r.command(words, all, 0)
		r.variables(c)
		if len(words) == 0 {
			continue
		}
		r.origins.add(r.originOf(words[0]))
		if all {
			text := text.ShellQuote(words)
			r.lineBytes += len(text)
			r.lines.add(text)
			r.line.Programs = append(r.line.Programs, sandbox.Started{Argv: words, Basename: path.Base(words[0])})
		}
	}
}

func (r *reading) originOf(name string) string {
	if isBuiltin(name) || name == "[[" && r.dialect == shellwords.Bash {
		return tool.OriginShell
	}
	return r.origin(name)
}

// redirect is a file that is read or written. What stands for nothing, or for a
// stream that is open anyway, is none.
func (r *reading) redirect(redirect shellwords.Redirect) {
	target, known := redirect.Target.Literal()
	if known {
		target = path.Clean(target)
	} else {
		target = tool.ShellUnknown
	}
	switch {
	case slices.Contains([]string{"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"}, target):
	case strings.HasPrefix(target, "/dev/tcp/"), strings.HasPrefix(target, "/dev/udp/"):
		r.special.add(tool.ShellNetwork)
	case redirect.Writes:
		r.writes.add(target)
	default:
		r.reads.add(target)
		if known {
			r.line.Sources = append(r.line.Sources, target)
		}
	}
}

// command is one that the line, or a text within it, runs. words are those that are
// known, up to the first that is not.
func (r *reading) command(words []string, all bool, depth int) {
	if len(words) == 0 {
		return // its name is expanded
	}
	r.start(words, all)
	r.judge(words, depth)
	if r.wraps(words) {
		r.special.add(tool.ShellWrapper)
		r.wrapped(words, all, depth)
	}
}

// start adds the name of a command, and the name with its first argument.
func (r *reading) start(words []string, all bool) {
	base := r.name(words[0])
	if base == "" {
		return
	}
	first, _ := sandbox.Subcommand(base, words)
	switch {
	case first != "":
		r.subcommands.add(base + " " + first)
	case len(words) == 1 && all:
		r.subcommands.add(base)
	default:
		r.subcommands.add(base + " " + tool.ShellUnknown)
	}
}

// name adds the name of a command without its directory, in small letters too, since
// some file systems take these for the same, and as it is written.
func (r *reading) name(name string) string {
	if name == "" {
		r.special.add(tool.ShellOther)
		return ""
	}
	base := path.Base(name)
	lower := strings.ToLower(base)
	r.commands.add(name, base, lower, strings.TrimSuffix(lower, ".exe"))
	return base
}

// text reads a text that a command runs as code, in whatever shell.
func (r *reading) text(text string, depth int) {
	r.texts++
	if r.texts > mostTexts || depth >= deepest {
		r.special.add(tool.ShellOther)
		r.tokens(text)
		return
	}
	script, err := shellwords.Parse(shellwords.Bash, text)
	if err != nil {
		r.env.add(tool.EnvUnknown)
		r.tokens(text)
		return
	}
	r.settings(script.Settings)
	for _, c := range script.Commands {
		words, all := c.Argv()
		r.command(words, all, depth+1)
		r.variables(c)
	}
}

// tokens takes every word of a text that cannot be read for a command.
func (r *reading) tokens(text string) {
	text = strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(text)
	words := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \t\r\n;|&<>(){}$`=,!#", c) })
	for i, word := range words[:min(len(words), shellwords.MaxCommands)] {
		base := r.name(word)
		r.name(strings.TrimLeft(word, "-0123456789")) // >&-rm
		if i+1 < len(words) {
			r.subcommands.add(base + " " + words[i+1])
		}
	}
}
