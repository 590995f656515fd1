//go:build darwin || linux

package seatbelt

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// runPrefix is the name prefix of run directories; the daemon's process id and a random part
// follow.
const runPrefix = "palyra-run-"

// tree is the set of processes of one run.
type tree interface {
	// look finds the current processes and returns the number of living ones.
	look() int
	// kill ends all processes that it finds, until none is left or a timeout of a few seconds.
	kill() error
	close()
}

// Runner runs programs under Seatbelt. It is safe for concurrent use.
type Runner struct {
	cfg Config
	// problem is the reason why programs cannot run on this machine, nil if they can.
	problem *reason.Error
	// backend names the mechanism and its version.
	backend string
	exec    string
	execSHA string
	// helper is this program, and helperArgs make it call Child.
	helper     string
	helperArgs []string
	helperSHA  string
	kernel     string
	follow     func(pid int) (tree, error)
	resolver   command.Resolver
}

// newRunner checks the requirements of a run. A missing feature is not an error: Probe reports
// it, and Run refuses because of it.
func newRunner(cfg Config, exec string, helper []string, follow func(int) (tree, error)) (*Runner, error) {
	if cfg.RunDir == "" {
		cfg.RunDir = os.TempDir()
	}
	var err error
	if cfg.RunDir, err = filepath.EvalSymlinks(cfg.RunDir); err != nil {
		return nil, fmt.Errorf("finding the directory of runs: %w", err)
	}
	r := &Runner{cfg: cfg, exec: exec, helper: helper[0], helperArgs: helper[1:], follow: follow, backend: filepath.Base(exec)}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		r.kernel = unix.ByteSliceToString(name.Release[:])
	}
	for _, each := range []struct {
		path string
		sum  *string
	}{{r.exec, &r.execSHA}, {r.helper, &r.helperSHA}} {
		program, err := r.resolver.ResolveExecutable(each.path, nil)
		if err != nil {
			r.problem = reason.Errorf(reason.SandboxUnavailable, "%s cannot be used: %w", each.path, err).
				WithRemedy("Programs require /usr/bin/sandbox-exec, which is part of macOS, and palyrad must still exist at the path from which it was started.")
			return r, nil
		}
		*each.sum = program.SHA256
	}
	return r, nil
}

// Run runs one program; see sandbox.Runner.
func (r *Runner) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	if !r.cfg.Enabled {
		return sandbox.Report{}, reason.Errorf(reason.SandboxDisabled, "running programs is disabled (process_runner.enabled)")
	}
	if err := errors.Join(s.NoSessions("sandbox-exec"), check(s)); err != nil {
		return sandbox.Report{}, err
	}
	if r.problem != nil {
		return sandbox.Report{}, r.problem
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Report{}, reason.Errorf(reason.Cancelled, "the call was cancelled before the program started")
	}
	return r.run(ctx, s, false)
}

// check refuses requirements that this sandbox cannot meet, before anything is opened.
func check(s sandbox.Spec) error {
	if err := command.CheckArgv(s.Argv); err != nil {
		return err
	}
	if err := errors.Join(command.CheckEnv(s.Env), sandbox.NoInjection(s)); err != nil {
		return err
	}
	if err := s.Limits.Check(); err != nil {
		return err
	}
	if s.Executable.Path == "" || s.Executable.SHA256 == "" {
		return reason.Errorf(reason.InvalidInput, "the executable has no path or no digest")
	}
	if s.Workspace == sandbox.CopyOnWrite {
		return reason.Errorf(reason.SandboxUnavailable, "macOS does not support copy-on-write workspaces").
			WithRemedy("Declare the workspace with mode = \"direct\" to let programs write to it, or run the program read-only.")
	}
	if s.Network != nil {
		return reason.Errorf(reason.EgressDenied, "programs run offline on macOS: allowed hosts cannot be enforced").
			WithRemedy("Omit the hosts, or fetch with http.fetch.")
	}
	return nil
}

// run runs one program. With open, it uses a profile that forbids nothing, to demonstrate the
// effect of the profile.
func (r *Runner) run(ctx context.Context, s sandbox.Spec, open bool) (sandbox.Report, error) {
	j := &job{runner: r, spec: s, limits: s.Limits.OrDefault(), open: open}
	if err := j.prepare(); err != nil {
		return sandbox.Report{}, errors.Join(err, j.close())
	}
	report, err := j.run(ctx)
	return report, errors.Join(err, j.close())
}

// Close does nothing.
func (*Runner) Close() error { return nil }

// Sweep removes the directories of runs whose daemon is dead.
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
	pid, _, _ := strings.Cut(rest, "-")
	n, err := strconv.Atoi(pid)
	return ok && err == nil && n > 0 && errors.Is(unix.Kill(n, 0), unix.ESRCH)
}

// removeTree removes a directory that may contain parts without permissions for its owner.
func removeTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = os.Chmod(name, 0o700) //nolint:gosec // a directory that is removed next
		}
		if err != nil && errors.Is(err, fs.ErrPermission) {
			return nil
		}
		return err
	})
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing the directory of a run: %w", err)
	}
	return nil
}

// visible refuses a program that the profile does not allow to start.
func (r *Runner) visible(s sandbox.Spec) error {
	program := s.Executable.Path
	for _, dir := range slices.Concat(systemRoots, r.cfg.ReadRoots, command.Shown(s.Toolchains), []string{s.WorkspaceRoot}) {
		if strings.HasPrefix(program, strings.TrimSuffix(dir, "/")+"/") {
			return nil
		}
	}
	return reason.Errorf(reason.ExecutableDenied, "the program %s is outside of the system's directories and the workspace", program).
		WithRemedy("Install it below /usr/local, or copy it into the workspace.")
}

func digest(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return "sha256:" + hex.EncodeToString(sum[:])
}
