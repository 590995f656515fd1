// Package shellfacts derives the facts of a shell line for policies: its commands, and the parts
// that are unknown before it runs. It errs on the safe side. A name that may be a command counts
// as one, so a rule against a command holds for every line that could run it. Anything uncertain
// makes the line unknown, so a rule that allows some commands does not match it.
package shellfacts

import (
	"maps"
	"path"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/shellwords"
)

// Limits of the derived facts, in addition to the limits of the line.
const (
	// longestLines is the maximum size of Lines in bytes, equal to the limit for the command line
	// of process.run.
	longestLines = 16 << 10
	// mostTexts is the maximum number of nested texts, such as the argument of sh -c, and deepest
	// their maximum nesting.
	mostTexts, deepest = 64, 4
	// mostWords is the maximum number of words of a wrapper that are checked individually.
	mostWords = 64
)

// Line is a parsed line.
type Line struct {
	Facts tool.ShellFacts
	// Problem is the reason why the line cannot be parsed, "" if it can.
	Problem string
	// Digest covers the whole parse result: "sha256:<hex>". Form is a canonical form without
	// differences in spaces and comments, "" for a line that cannot be parsed.
	Digest, Form string
	// Programs are the commands whose words are all known, for the files that they name. Sources
	// are the files that redirects read.
	Programs []command.Started
	Sources  []string
	// Env are the variables that the line may set for its commands and that are not on the allow
	// list, sorted; tool.EnvUnknown if it may set any.
	Env []string
}

// Read parses a line that the gateway itself passes to a shell. origin returns the origin of a
// program by its name: one of the origins of tool.ExecFacts, or tool.OriginUnknown.
func Read(dialect shellwords.Dialect, text string, origin func(name string) string) Line {
	return read(dialect, text, origin, false)
}

// Claim returns the facts of a line that another process runs. They depend on the proposer's
// statement: the executed line, or its shell, may differ. Such a line is never known, so only
// restrictive rules can rely on it.
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
	if err != nil { // impossible: the value is valid UTF-8 text
		r.line.Problem = "computing its digest failed"
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

// reading collects the facts.
type reading struct {
	dialect shellwords.Dialect
	origin  func(string) string
	line    Line

	special, commands, subcommands, lines, origins, reads, writes, env set
	lineBytes, texts                                                   int
}

// conclude derives the facts about the whole line.
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

// features maps the features of shellwords to facts.
var features = map[shellwords.Feature]string{
	shellwords.Assignment: tool.ShellAssignment, shellwords.Arithmetic: tool.ShellArithmetic, shellwords.Coprocess: tool.ShellCoprocess,
	shellwords.Function: tool.ShellFunction, shellwords.Other: tool.ShellOther,
}

// script records the facts of the line itself.
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
			r.line.Programs = append(r.line.Programs, command.Started{Argv: words, Basename: path.Base(words[0])})
		}
	}
}

func (r *reading) originOf(name string) string {
	if isBuiltin(name) || name == "[[" && r.dialect == shellwords.Bash {
		return tool.OriginShell
	}
	return r.origin(name)
}

// redirect records a file that is read or written. It ignores /dev/null and streams that are open
// anyway.
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

// command records a command of the line or of a text in it. words are its known words, up to the
// first unknown one.
func (r *reading) command(words []string, all bool, depth int) {
	if len(words) == 0 {
		return // its name is an expansion
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
	first, _ := command.Subcommand(base, words)
	switch {
	case first != "":
		r.subcommands.add(base + " " + first)
	case len(words) == 1 && all:
		r.subcommands.add(base)
	default:
		r.subcommands.add(base + " " + tool.ShellUnknown)
	}
}

// name adds the name of a command without its directory, both unchanged and in lower case,
// because some file systems ignore case.
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

// text parses a text that a command runs as code, in any shell.
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

// tokens treats every word of an unparseable text as a command.
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
