package builtin

import (
	"cmp"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/shellfacts"
	"palyra/internal/exec/program/shellwords"
)

const shellName = "shell.run"

// shell runs a line in a shell, like process.run runs a program. In addition the line is parsed,
// and policy receives the parsed commands.
type shell struct{ process }

// newShell returns the tool. It shares the places for running programs with process.run.
func newShell(programs process) shell {
	programs.toolName, programs.read = shellName, readShell
	return shell{programs}
}

type shellInput struct {
	Command string `json:"command"`
	Shell   string `json:"shell"`
	runInput
}

func (shell) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: shellName, Title: "Run a line in a shell",
		Description: "Run a command line in a shell, in the same sandbox as process.run: pipes, lists, redirections and substitutions work. Every command of the line is read before it runs " +
			"and is what policy decides on, so write it plainly: a line with expansions ($VAR, $(...), *), eval, sh -c, env, xargs, find -exec or assignments is not known before it runs, and is more " +
			"likely to need a person's approval. There are no startup files and no aliases, and the shell is not interactive. Use process.run for a single program. What the line " +
			"writes goes to a copy and is committed to the workspace when it ends, if policy allows it. A non-zero exit code is a result.",
		InputSchema: programSchema(`"command"`,
			`"command": {"type": "string", "minLength": 1, "maxLength": 65536, "description": "The line, or several."}`,
			`"shell": {"type": "string", "enum": ["bash", "sh"], "description": "Whose language the line is in, and who runs it. Default bash."}`,
		),
		Capabilities: []tool.Capability{tool.ProcessExec}, Executor: processExecutor(), Destructive: true, AlwaysSensitive: true,
	}
}

// Unusable returns the reason why no line can run here, nil if lines can run.
func (t shell) Unusable() error { return cmp.Or(noShells(), t.process.Unusable()) }

// noShells refuses a platform without a shell.
func noShells() error {
	if runtime.GOOS != "windows" {
		return nil
	}
	return reason.Errorf(reason.PlatformUnknown, "%s needs a POSIX shell, which Windows does not have", shellName).WithRemedy("Use process.run.")
}

// line is a shell line with its parse result.
type line struct {
	text string
	shellfacts.Line
}

// shellArgs are the arguments that disable startup files. -- ends the options, so that a line
// beginning with a dash is not parsed as an option.
var shellArgs = map[string][]string{
	"bash": {"--noprofile", "--norc", "-c", "--"},
	"sh":   {"-c", "--"},
}

func readShell(p tool.Proposal) (processInput, *line, error) {
	in, err := decode[shellInput](p.Input)
	if err != nil {
		return processInput{}, nil, err
	}
	if in.Shell == "" {
		in.Shell = "bash"
	}
	args, known := shellArgs[in.Shell]
	switch {
	case noShells() != nil:
		return processInput{}, nil, noShells()
	case !known:
		return processInput{}, nil, reason.Errorf(reason.InvalidInput, "the shell %q is not supported", in.Shell).WithField("pointer", "/shell").WithRemedy("Use bash or sh.")
	case strings.TrimSpace(in.Command) == "":
		return processInput{}, nil, reason.Errorf(reason.InvalidInput, "the command line is empty").WithField("pointer", "/command")
	case len(in.Command) > shellwords.MaxText:
		return processInput{}, nil, reason.Errorf(reason.InvalidInput, "the command line has %d bytes, but at most %d are accepted", len(in.Command), shellwords.MaxText).
			WithField("pointer", "/command").WithRemedy("Write a long script to a file of the workspace with fs.write, and run the file.")
	}
	argv := append(append([]string{in.Shell}, args...), in.Command)
	return processInput{Argv: argv, runInput: in.runInput}, &line{text: in.Command}, nil
}

// dialects are the languages of the supported shells, by the name of the file behind all links.
var dialects = map[string]shellwords.Dialect{"bash": shellwords.Bash, "dash": shellwords.Posix, "sh": shellwords.Posix}

// readLine parses the line in the language of the shell that was found.
func (f programFinder) readLine(c *programCall) error {
	if c.line == nil || c.program.Path == "" { // a shell that is missing is refused later
		return nil
	}
	dialect, known := dialects[command.Family(c.program.Basename)]
	if !known || c.own != "" {
		return reason.Errorf(reason.ExecutableDenied, "the shell %s is %s, whose language the gateway cannot parse", c.in.Argv[0], c.program.Path).
			WithRemedy("Use the other shell, bash or sh, or process.run.").WithField("pointer", "/shell")
	}
	c.line.Line = shellfacts.Read(dialect, c.line.text, f.origins(c))
	return nil
}

// mostOrigins limits the number of program lookups for one line.
const mostOrigins = 64

// origins looks up programs like the shell does, by the search path of the sandbox.
func (f programFinder) origins(c *programCall) func(string) string {
	known := map[string]string{}
	return func(name string) string {
		if ofWorkspace(name) {
			return tool.OriginWorkspace
		}
		origin, looked := known[name]
		if looked {
			return origin
		}
		if len(known) == mostOrigins {
			return tool.OriginUnknown
		}
		origin = tool.OriginUnknown
		if program, err := f.resolver.ResolveExecutable(name, c.search); err == nil {
			origin = program.From(c.toolchains).Origin
			switch {
			case strings.HasPrefix(program.Path, strings.TrimSuffix(c.root, "/")+string(filepath.Separator)):
				origin = tool.OriginWorkspace
			case origin == tool.OriginSystem && strings.HasPrefix(program.Path, "/usr/local/"):
				origin = tool.OriginLocal
			}
		}
		known[name] = origin
		return origin
	}
}

// form returns the key under which a refusal of the line is remembered, "" for a call without a
// line.
func (l *line) form() string {
	switch {
	case l == nil:
		return ""
	case l.Form != "":
		return l.Form
	}
	return l.text
}

// parsed returns the digest of the parse result, "" for a call without a line.
func (c programCall) parsed() string {
	if c.line == nil {
		return ""
	}
	return c.line.Digest
}

func (c programCall) shellFacts() *tool.ShellFacts {
	if c.line == nil {
		return nil
	}
	return &c.line.Facts
}

// typed returns the command line as a person would write it: bash 'ls | wc -l'.
func (c programCall) typed() []string {
	if c.line == nil {
		return c.in.Argv
	}
	return []string{c.in.Argv[0], c.line.text}
}

// operands returns the workspace files that the commands of the line name.
func (l *line) operands(root, cwd string) (command.Named, error) {
	programs := slices.Clone(l.Programs)
	if len(l.Sources) > 0 {
		programs = append(programs, command.Started{Argv: append([]string{"<"}, l.Sources...)})
	}
	return command.OperandsOf(root, cwd, programs...)
}

// aboutSpecial describes the special constructs of a line.
var aboutSpecial = map[string]string{
	tool.ShellAlias: "gives a name another meaning", tool.ShellArithmetic: "evaluates arithmetic, which can run commands", tool.ShellAssignment: "sets variables",
	tool.ShellBuiltin: "changes how the shell works", tool.ShellCoprocess: "starts a coprocess", tool.ShellEval: "runs text as code", tool.ShellFunction: "defines functions",
	tool.ShellInlineCode: "gives code to an interpreter", tool.ShellNetwork: "opens a connection by a redirect", tool.ShellOther: "has something that the gateway does not know",
	tool.ShellShell: "starts another shell", tool.ShellSource: "runs a file as code", tool.ShellTrap: "sets commands aside for later", tool.ShellWrapper: "has programs start others",
}

// notes list, for the approver, the parts of the line that are unknown before it runs.
func (l *line) notes() []string {
	if l == nil {
		return nil
	}
	var notes []string
	if l.Problem != "" {
		notes = append(notes, "The gateway cannot parse this line, so it does not know what runs: "+l.Problem+".")
	}
	if l.Facts.Dynamic {
		notes = append(notes, "Some words of the line are known only when it runs.")
	}
	if len(l.Facts.Special) > 0 {
		about := make([]string, len(l.Facts.Special))
		for i, special := range l.Facts.Special {
			about[i] = aboutSpecial[special]
		}
		notes = append(notes, "The line "+strings.Join(about, "; it ")+".")
	}
	if slices.Contains(l.Facts.Commands, "cd") {
		notes = append(notes, "The line changes its directory: files named after that may differ from the files that the approval binds.")
	}
	if len(l.Facts.Writes) > 0 {
		notes = append(notes, "Redirects write to "+commandLine(l.Facts.Writes, shownCommand)+".")
	}
	return notes
}
