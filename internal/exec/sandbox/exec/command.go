package exec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/core/config"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/author"
	"palyra/internal/exec/sandbox/places"
	"palyra/internal/exec/sandbox/toolchain"
	"palyra/internal/exec/workspace"
)

// Exit codes other than the program's own.
const (
	Failed   = 125
	TimedOut = 124
	Stopped  = 130
)

// ExitError makes palyrad exit with the code Code. If Err is nil, nothing more is printed,
// because the cause was already printed.
type ExitError struct {
	Code int
	Err  error
}

func (e ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e ExitError) Unwrap() error { return e.Err }

// Steps returns the possible sandboxes of a machine, best first.
type Steps func(config.ProcessRunner, places.Places) []sandbox.Step

// options are the flags of `palyrad sandbox exec`.
type options struct {
	tier, egress, workspace, report, commit string
	allow, deny, limits                     []string
	cow, readOnly                           bool
	timeout                                 time.Duration
}

// Command returns the command `palyrad sandbox exec`.
func Command(steps Steps) *cobra.Command {
	var o options
	c := &cobra.Command{
		Use: "exec [flags] -- PROGRAM [ARGUMENT...]", Short: "Run a program in the sandbox, without a gateway",
		Long: "Run a program in the sandbox that process.run uses, without a gateway: nothing is decided, recorded or attested, and no program is refused for its name. " +
			"It needs no configuration, no state directory and no daemon, and works as an ordinary user and as root.\n\n" +
			"Without --workspace the program has an empty directory at /workspace, which is removed afterwards. With it, it writes to that directory, except protected files such as git's hooks; " +
			"with --cow to a copy, whose changes are listed at the end and committed with --commit.\n\n" +
			"The program is offline, except for hosts in --allow, which may be repeated; it can use any protocol to reach these. Denied hosts are printed at the end; the report lists every connection.\n\n" +
			"Standard input is passed on when it is a file or a pipe, at most 16 MiB. The exit code is the program's; " +
			"124 at its timeout, 125 if the sandbox could not run it or stopped it.",
		Example: "  palyrad sandbox exec -- uname -a\n  palyrad sandbox exec --allow example.org:443 -- curl -s https://example.org\n  palyrad sandbox exec --workspace . --cow --report json -- make test",
		Args: func(_ *cobra.Command, argv []string) error {
			if len(argv) == 0 {
				return ExitError{Failed, badFlags("name the program to run")}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, argv []string) error {
			run, err := o.parse(argv)
			if err != nil {
				return ExitError{Failed, err}
			}
			run.steps, run.stdout, run.stderr = steps, cmd.OutOrStdout(), cmd.ErrOrStderr()
			if run.spec.Stdin, err = pipedInput(cmd.InOrStdin()); err != nil {
				return ExitError{Failed, err}
			}
			return run.run(cmd.Context())
		},
	}
	c.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return ExitError{Failed, badFlags("%w", err)} })
	f := c.Flags()
	f.SetInterspersed(false)
	f.StringVar(&o.tier, "tier", config.Default().ProcessRunner.Tier, "c: a separate root and namespaces; b: filters and limits around a process that sees the machine's files")
	f.StringVar(&o.egress, "egress", config.EgressStrict, "strict: only the hosts of --allow; preflight: the network of the machine after a check of --allow; unrestricted: the network of the machine")
	f.StringArrayVar(&o.allow, "allow", nil, "`HOST:PORT` that the program may reach; *.domain, addresses and prefixes with a port as well, except for --egress preflight; may be repeated")
	f.StringArrayVar(&o.deny, "deny", nil, "`HOST[:PORT]` that it may not reach, even if --allow covers it, for --egress strict; may be repeated")
	f.StringVar(&o.workspace, "workspace", "", "`DIR` that the program sees at /workspace, where it starts")
	f.BoolVar(&o.cow, "cow", false, "let it write to a copy of the workspace")
	f.BoolVar(&o.readOnly, "read-only", false, "mount the workspace, or the empty directory, read-only")
	f.StringVar(&o.commit, "commit", "no", "what becomes of the changes of --cow: no, yes (all but protected ones), ask (on the terminal, about all)")
	f.DurationVar(&o.timeout, "timeout", 0, "kill it and all its processes after this time (default 2m0s)")
	f.StringArrayVar(&o.limits, "limit", nil, "`NAME=VALUE`: cpu=10s, memory=512m, output, processes, open_files, file_size, tmp, disk, files; may be repeated")
	f.StringVar(&o.report, "report", "", "write the enforced layers and the used resources: `json` (a line on standard error) or a file name")
	return c
}

// execution is a validated command line.
type execution struct {
	steps  Steps
	runner config.ProcessRunner
	spec   sandbox.Spec
	// allow are the hosts to check in mode preflight.
	allow          []string
	report, commit string
	stdout, stderr io.Writer
}

// badFlags returns an error for invalid or conflicting flags.
func badFlags(format string, args ...any) error {
	return reason.Errorf(reason.InvalidInput, format, args...).WithRemedy("See `palyrad sandbox exec --help`.")
}

func (o options) parse(argv []string) (execution, error) {
	runner := config.Default().ProcessRunner
	runner.Tier, runner.Prepared = o.tier, 0
	if o.tier == config.TierB {
		runner.Fallback = config.FallbackLandlock
	}
	run := execution{runner: runner, allow: o.allow, report: o.report, commit: o.commit}
	mode, err := egress.ParseMode(o.egress)
	switch {
	case err != nil:
		return run, badFlags("--egress: %w", err)
	case !slices.Contains([]string{config.TierB, config.TierC}, o.tier):
		return run, badFlags("--tier %q: must be b or c", o.tier)
	case !slices.Contains([]string{"no", "yes", "ask"}, o.commit):
		return run, badFlags("--commit %q: must be no, yes or ask", o.commit)
	case o.cow && o.readOnly:
		return run, badFlags("--cow and --read-only exclude each other")
	case o.cow && o.workspace == "":
		return run, badFlags("--cow requires --workspace")
	case o.commit != "no" && !o.cow:
		return run, badFlags("--commit requires --cow")
	case len(o.allow) > 0 && mode == egress.Unrestricted:
		return run, badFlags("--allow has no effect with --egress unrestricted, which checks nothing")
	case len(o.deny) > 0 && (mode != egress.Strict || len(o.allow) == 0):
		return run, badFlags("--deny restricts --allow: it requires --allow, and --egress strict")
	}
	run.spec = sandbox.Spec{Argv: argv, Egress: mode, Owner: "exec", Workspace: o.mode()}
	if run.spec.Limits, err = o.parseLimits(); err != nil {
		return run, err
	}
	if run.spec.Network, err = o.network(mode); err != nil {
		return run, err
	}
	if o.workspace != "" {
		if run.spec.WorkspaceRoot, err = existingDir(o.workspace); err != nil {
			return run, err
		}
		run.spec.HostPath = workspace.HasWorktrees(run.spec.WorkspaceRoot, "")
	}
	tools := o.tools(run.spec.WorkspaceRoot)
	run.spec.Toolchains, run.spec.Author = toolchain.Find(tools).Toolchains, author.Of(tools.Home)
	program, err := resolveProgram(argv[0], run.spec.Toolchains)
	if err == nil {
		err = command.CheckRustup(program, argv, run.spec.Toolchains)
	}
	if err != nil {
		return run, err
	}
	run.spec.Executable = program.Executable
	return run, nil
}

// network returns the hosts that the program may reach. It is nil for no hosts, and in the
// modes preflight and unrestricted, which restrict no connection.
func (o options) network(mode egress.Mode) (*egress.Reach, error) {
	switch {
	case mode != egress.Strict, len(o.allow) == 0 && runtime.GOOS != "linux":
		return nil, nil
	case len(o.allow) == 0:
		return &egress.Reach{}, nil // offline, with a name service that records the denied names
	}
	var grant egress.Reach
	var err error
	if grant.Rules.Allow, err = egress.ParseRules(o.allow); err != nil {
		return nil, err
	}
	if grant.Rules.Deny, err = egress.ParseRules(o.deny); err != nil {
		return nil, err
	}
	return &grant, grant.Enforceable()
}

func (o options) mode() sandbox.WorkspaceMode {
	switch {
	case o.cow:
		return sandbox.CopyOnWrite
	case o.readOnly:
		return sandbox.ReadOnly
	}
	return sandbox.Direct
}

// tools returns the toolchain directories of the current user, as for that user's gateway.
func (o options) tools(workspace string) toolchain.Config {
	var cfg config.Config
	if workspace != "" {
		cfg.Workspaces = []config.Workspace{{Name: workspace, Path: workspace}}
	}
	return toolchain.For(&cfg, sandbox.Tier(o.tier))
}

// resolveProgram finds a program by its name or path. A relative path is resolved from the
// current directory, not from the workspace.
func resolveProgram(name string, toolchains []command.Toolchain) (command.Program, error) {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		full, err := filepath.Abs(name)
		if err != nil {
			return command.Program{}, reason.Errorf(reason.SpawnFailed, "finding %q: %w", name, err)
		}
		name = full
	}
	return command.ResolveExecutable(name, command.PathWith(toolchains))
}

func existingDir(name string) (string, error) {
	dir, err := filepath.Abs(name)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", reason.Errorf(reason.WorkspaceScope, "--workspace: %w", err).WithRemedy("Name an existing directory.")
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return "", reason.Errorf(reason.WorkspaceScope, "--workspace %q is not a directory", name).WithRemedy("Name a directory.")
	}
	return dir, nil
}

func (o options) parseLimits() (sandbox.Limits, error) {
	l := sandbox.Limits{Wall: o.timeout}
	var processes, files int64
	sizes := map[string]*int64{
		"memory": &l.Memory, "output": &l.Output, "file_size": &l.FileSize, "tmp": &l.Tmp, "disk": &l.Disk, "files": &l.Files,
		"processes": &processes, "open_files": &files,
	}
	for _, text := range o.limits {
		name, value, _ := strings.Cut(text, "=")
		var err error
		switch {
		case name == "cpu":
			l.CPU, err = time.ParseDuration(value)
		case sizes[name] != nil:
			*sizes[name], err = parseSize(value)
		default:
			err = errors.New("the limit does not exist")
		}
		if err != nil {
			return l, reason.Errorf(reason.InvalidInput, "--limit %q: %w", text, err).WithRemedy("Write it like memory=512m, cpu=10s or processes=64; see `palyrad sandbox exec --help`.")
		}
	}
	l.Processes, l.OpenFiles = int(processes), int(files)
	if l.Output == 0 {
		// All output is passed on. This limit only stops a flood of output.
		l.Output = 16 << 20
	}
	return l, l.Check()
}

// parseSize parses a size in bytes or a count: 4096, 64k, 512m, 2g.
func parseSize(text string) (int64, error) {
	shift := 0
	for i, suffix := range []string{"k", "m", "g"} {
		if number, ok := strings.CutSuffix(strings.ToLower(text), suffix); ok {
			text, shift = number, 10*(i+1)
		}
	}
	n, err := strconv.ParseUint(text, 10, 63-shift)
	if err != nil || n == 0 {
		return 0, errors.New("must be a number such as 4096, 64k, 512m or 2g")
	}
	return int64(n << shift), nil
}

// mostInput is the maximum size of the standard input, in bytes.
const mostInput = 16 << 20

// pipedInput reads standard input if it has data to pass on.
func pipedInput(in io.Reader) ([]byte, error) {
	if f, ok := in.(*os.File); ok && !sends(f) {
		return nil, nil
	}
	data, err := io.ReadAll(io.LimitReader(in, mostInput+1))
	if err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	if len(data) > mostInput {
		return nil, reason.Errorf(reason.InvalidInput, "standard input has more than %d bytes", mostInput).
			WithRemedy("Put it into a file of the workspace.")
	}
	return data, nil
}

// sends reports whether f, standard input, has data to pass on: it is a file or a pipe, and not a
// terminal or /dev/null.
func sends(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice == 0
}
