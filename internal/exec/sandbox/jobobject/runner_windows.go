package jobobject

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/windows"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// runPrefix is the name prefix of run directories; the daemon's process id and a random part
// follow.
const runPrefix = "palyra-run-"

// Runner runs programs in job objects. It is safe for concurrent use.
type Runner struct {
	cfg      Config
	backend  string
	kernel   string
	windows  string
	resolver command.Resolver

	// tolerant lets a test of this package run a program even if its layers cannot be read back,
	// as under Wine. Production code never sets it.
	tolerant bool
}

// New inspects the machine and returns a Runner.
func New(cfg Config) (*Runner, error) {
	if cfg.RunDir == "" {
		cfg.RunDir = os.TempDir()
	}
	dir, err := windows.GetSystemWindowsDirectory()
	if err != nil {
		return nil, fmt.Errorf("GetSystemWindowsDirectory: %w", err)
	}
	v := windows.RtlGetVersion()
	kernel := fmt.Sprintf("%d.%d.%d", v.MajorVersion, v.MinorVersion, v.BuildNumber)
	return &Runner{cfg: cfg, backend: "job object, Windows " + kernel, kernel: kernel, windows: dir}, nil
}

// Run runs one program; see sandbox.Runner.
func (r *Runner) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	if !r.cfg.Enabled {
		return sandbox.Report{}, reason.Errorf(reason.SandboxDisabled, "running programs is disabled (process_runner.enabled)")
	}
	if err := errors.Join(s.NoSessions("a job object"), check(s)); err != nil {
		return sandbox.Report{}, err
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Report{}, reason.Errorf(reason.Cancelled, "the call was cancelled before the program started")
	}
	return r.run(ctx, s)
}

func (r *Runner) run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	j := &run{runner: r, spec: s, limits: s.Limits.OrDefault(), readOnly: s.Workspace != sandbox.Direct}
	if err := j.prepare(); err != nil {
		return sandbox.Report{}, errors.Join(err, j.close())
	}
	report, err := j.run(ctx)
	return report, errors.Join(err, j.close())
}

// Close does nothing.
func (*Runner) Close() error { return nil }

// Sweep removes the directories of runs whose daemon is dead. The processes of these runs have
// ended with the daemon, because a job ends with its last handle.
func (r *Runner) Sweep(ctx context.Context) error {
	entries, err := os.ReadDir(r.cfg.RunDir)
	for _, entry := range entries {
		if ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if entry.IsDir() && orphaned(entry.Name()) {
			err = errors.Join(err, removeTree(filepath.Join(r.cfg.RunDir, entry.Name())))
		}
	}
	return err
}

// orphaned reports whether the name of a run's directory belongs to a dead daemon.
func orphaned(name string) bool {
	rest, ok := strings.CutPrefix(name, runPrefix)
	text, _, _ := strings.Cut(rest, "-")
	pid, err := strconv.ParseUint(text, 10, 32)
	if !ok || err != nil || pid == 0 {
		return false
	}
	h, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err == nil {
		windows.CloseHandle(h)
	}
	return errors.Is(err, windows.ERROR_INVALID_PARAMETER)
}

// removeTree removes a directory. If the file system does not support the way in which
// os.RemoveAll deletes, it removes the leaves first.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	var names []string
	_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, _ error) error {
		names = append(names, name)
		return nil
	})
	var failed error
	for _, name := range slices.Backward(names) {
		failed = errors.Join(failed, os.Remove(name))
	}
	if failed != nil {
		return fmt.Errorf("removing the directory of a run: %w", failed)
	}
	return nil
}

// Probe runs a program without effects in an empty workspace, and reports the proven layers or
// the obstacle. It also works while running programs is disabled.
func (r *Runner) Probe(ctx context.Context) sandbox.Status {
	status := sandbox.Status{Backend: r.backend, Tier: sandbox.TierB, Rung: sandbox.JobObject, Limits: "job_object"}
	report, err := r.try(ctx)
	return status.Tried(report, err)
}

func (r *Runner) try(ctx context.Context) (sandbox.Report, error) {
	dir, err := os.MkdirTemp(r.cfg.RunDir, "palyra-probe-")
	if err != nil {
		return sandbox.Report{}, fmt.Errorf("creating a workspace for the probe: %w", err)
	}
	defer func() { _ = removeTree(dir) }()
	program, err := r.resolver.ResolveExecutable(filepath.Join(r.windows, "System32", "hostname.exe"), nil)
	if err != nil {
		return sandbox.Report{}, err
	}
	report, err := r.run(ctx, sandbox.Spec{
		Argv: []string{"hostname"}, Executable: program.Executable, WorkspaceRoot: dir, Workspace: sandbox.Direct, Egress: egress.Unrestricted,
	})
	if err == nil && (report.ExitCode == nil || *report.ExitCode != 0) {
		err = reason.Errorf(reason.SandboxUnavailable, "the probe failed: %s", report.Stderr.Head)
	}
	return report, err
}

// Examine probes the only layer whose effect is visible from outside: the end of a whole process
// tree when its limit is reached. The control is the same program with enough time.
func (r *Runner) Examine(ctx context.Context) []sandbox.Examination {
	e := sandbox.Examination{Layer: layerJob, Detail: "ending a program at its deadline, and letting it end by itself"}
	short, err := r.ping(ctx, 300*time.Millisecond)
	long, longErr := r.ping(ctx, 30*time.Second)
	e.Denied = err == nil && short.TimedOut
	e.Control = longErr == nil && long.ExitCode != nil
	return []sandbox.Examination{e.Judged(errors.Join(err, longErr), "Start palyrad outside of any job that forbids others, on Windows 8 or later.")}
}

// ping runs a system program that takes about two seconds.
func (r *Runner) ping(ctx context.Context, wall time.Duration) (sandbox.Report, error) {
	dir, err := os.MkdirTemp(r.cfg.RunDir, "palyra-probe-")
	if err != nil {
		return sandbox.Report{}, fmt.Errorf("creating a workspace for the probe: %w", err)
	}
	defer func() { _ = removeTree(dir) }()
	program, err := r.resolver.ResolveExecutable(filepath.Join(r.windows, "System32", "ping.exe"), nil)
	if err != nil {
		return sandbox.Report{}, err
	}
	return r.run(ctx, sandbox.Spec{
		Argv: []string{"ping", "-n", "3", "127.0.0.1"}, Executable: program.Executable, WorkspaceRoot: dir,
		Workspace: sandbox.Direct, Egress: egress.Unrestricted, Limits: sandbox.Limits{Wall: wall},
	})
}

// run is one run with all its resources. close releases them.
type run struct {
	runner   *Runner
	spec     sandbox.Spec
	limits   sandbox.Limits
	readOnly bool

	base, cwd string
	// pinned prevents other processes from writing to the program until it has started.
	pinned windows.Handle
	job    *jobObject
	token  windows.Token

	// stdin, stdout and stderr are the daemon's ends, child the program's.
	stdin          *os.File
	stdout, stderr *os.File
	child          []*os.File
	process        windows.ProcessInformation

	applied, downgrades []string
}

func (j *run) home() string { return filepath.Join(j.base, "inside", "home") }
func (j *run) tmp() string  { return filepath.Join(j.base, "inside", "tmp") }

// prepare opens, checks and builds all resources of the run.
func (j *run) prepare() error {
	if err := j.workspace(); err != nil {
		return err
	}
	if err := j.pin(); err != nil {
		return err
	}
	if err := j.places(); err != nil {
		return fmt.Errorf("creating the directory of a run: %w", err)
	}
	var err error
	if j.job, err = newJob(boundsOf(j.limits)); err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "setting the limits of the run: %w", err)
	}
	if j.token, err = restrictedToken(j.readOnly); err != nil {
		return reason.Errorf(reason.SandboxUnavailable, "restricting the program's privileges: %w", err)
	}
	return nil
}

func (j *run) workspace() error {
	root := j.spec.WorkspaceRoot
	if !filepath.IsAbs(root) || filepath.Clean(root) != root || strings.HasPrefix(root, `\\`) {
		return reason.Errorf(reason.WorkspaceScope, "the root of the workspace is not a clean absolute path on a local disk")
	}
	cwd, err := command.CheckCwd(j.spec.Cwd)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return reason.Errorf(reason.WorkspaceScope, "the root of the workspace is missing")
	}
	dir, err := filepath.EvalSymlinks(filepath.Join(root, filepath.FromSlash(cwd)))
	inside := err == nil && (dir == real || strings.HasPrefix(dir, strings.TrimSuffix(real, `\`)+`\`))
	if info, statErr := os.Stat(dir); !inside || statErr != nil || !info.IsDir() {
		return reason.Errorf(reason.WorkspaceScope, "the working directory %q is not a directory inside the workspace", cwd)
	}
	j.cwd = dir
	return nil
}

// pin opens the program so that it cannot be written or replaced, and then compares its bytes.
func (j *run) pin() error {
	name, err := windows.UTF16PtrFromString(j.spec.Executable.Path)
	if err != nil {
		return reason.Errorf(reason.InvalidInput, "the path of the program contains a NUL")
	}
	j.pinned, err = windows.CreateFile(name, windows.GENERIC_READ, windows.FILE_SHARE_READ, nil, windows.OPEN_EXISTING, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return reason.Errorf(reason.BindingMismatch, "the program %s does not exist, or another process is writing to it", j.spec.Executable.Path)
	}
	f, err := j.runner.resolver.OpenExecutable(j.spec.Executable)
	if err != nil {
		return err
	}
	f.Close()
	return nil
}

// places creates the run's directory. Directories that a program of low integrity may write to
// need a label.
func (j *run) places() error {
	var err error
	if j.base, err = os.MkdirTemp(j.runner.cfg.RunDir, fmt.Sprintf("%s%d-", runPrefix, os.Getpid())); err != nil {
		return err
	}
	inside := filepath.Join(j.base, "inside")
	if j.readOnly {
		err = lowDirectory(inside)
	} else {
		err = os.Mkdir(inside, 0o700)
	}
	return errors.Join(err, os.Mkdir(j.home(), 0o700), os.Mkdir(j.tmp(), 0o700))
}

// pipes creates the program's standard descriptors.
func (j *run) pipes() error {
	j.child = make([]*os.File, 3)
	var err error
	if j.spec.Stdin == nil {
		j.child[0], err = os.Open(os.DevNull)
	} else {
		j.child[0], j.stdin, err = os.Pipe()
	}
	if err != nil {
		return err
	}
	if j.stdout, j.child[1], err = os.Pipe(); err != nil {
		return err
	}
	j.stderr, j.child[2], err = os.Pipe()
	return err
}

// feed writes standard input until the program has received all of it or has exited.
func (j *run) feed() {
	if j.stdin != nil {
		_, _ = io.Copy(j.stdin, strings.NewReader(string(j.spec.Stdin)))
		j.stdin.Close()
	}
}

// judge compares the verified layers with the requested ones, and returns the required layers
// that are not in force.
func (j *run) judge() (unproved []string) {
	token, err := readToken(j.process.Process)
	add := func(ok bool, layer string) {
		if ok {
			j.applied = append(j.applied, layer)
		} else if refused := j.job.refused[layer]; refused != nil {
			j.downgrades = append(j.downgrades, layer+": Windows refused it: "+refused.Error())
		} else {
			j.downgrades = append(j.downgrades, layer+": it cannot be read back")
		}
	}
	add(j.job.holds(boundsOf(j.limits)) && j.job.contains(j.process.Process), layerJob)
	add(j.job.restrictsUI(), layerUI)
	add(j.job.capsRate(), layerRate)
	add(err == nil && token.bare, layerToken)
	if j.readOnly {
		add(err == nil && token.low, layerIntegrity)
	}
	j.downgrades = append(j.downgrades, limitations(j.readOnly)...)
	for _, layer := range slices.Concat(essential(j.readOnly), j.spec.Required) {
		if !slices.Contains(j.applied, layer) && !slices.Contains(unproved, layer) {
			unproved = append(unproved, layer)
		}
	}
	return unproved
}

// close releases the resources of the run and removes its directory.
func (j *run) close() error {
	for _, f := range append(j.child, j.stdin, j.stdout, j.stderr) {
		if f != nil {
			f.Close()
		}
	}
	for _, h := range []windows.Handle{j.process.Thread, j.process.Process, j.pinned, windows.Handle(j.token)} {
		if h != 0 && h != windows.InvalidHandle {
			windows.CloseHandle(h)
		}
	}
	if j.job != nil {
		j.job.close()
	}
	if j.base == "" {
		return nil
	}
	return removeTree(j.base)
}
