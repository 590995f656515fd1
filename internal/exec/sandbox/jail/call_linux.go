package jail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/disk"
	"palyra/internal/exec/workspace/overlay"
)

// Check refuses invalid specifications before any file is opened.
func Check(s sandbox.Spec) error {
	if err := errors.Join(command.CheckArgv(s.Argv), sandbox.CheckInjected(s), s.Limits.Check()); err != nil {
		return err
	}
	if s.Executable.Path == "" || s.Executable.SHA256 == "" {
		return reason.Errorf(reason.InvalidInput, "the executable has no path or no digest")
	}
	if err := checkCaches(s.Caches); err != nil {
		return err
	}
	if err := checkToolchains(s); err != nil {
		return err
	}
	return checkNetwork(s)
}

// checkToolchains refuses directories that would expose more than tools: the root directory,
// and directories that overlap the workspace.
func checkToolchains(s sandbox.Spec) error {
	for _, dir := range command.Shown(s.Toolchains) {
		if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || dir == "/" {
			return reason.Errorf(reason.InvalidInput, "the directory %q of a toolchain is not a clean absolute path", dir)
		}
		if strings.HasPrefix(dir+"/", s.WorkspaceRoot+"/") || strings.HasPrefix(s.WorkspaceRoot+"/", dir+"/") {
			return reason.Errorf(reason.InvalidInput, "the toolchain at %s and the workspace overlap", dir)
		}
	}
	return nil
}

// checkNetwork refuses hosts in a mode that does not enforce them.
func checkNetwork(s sandbox.Spec) error {
	if s.Network == nil {
		return nil
	}
	if s.Egress != egress.Strict {
		return reason.Errorf(reason.InvalidInput, "hosts are enforced only in the egress mode strict, and the mode is %s", s.Egress)
	}
	return s.Network.Check()
}

func checkCaches(caches []sandbox.Cache) error {
	seen := map[string]bool{}
	for _, c := range caches {
		if c.Name == "" || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" || seen[c.Name] {
			return reason.Errorf(reason.InvalidInput, "%q is not a valid cache name, or is listed twice", c.Name)
		}
		if !filepath.IsAbs(c.Dir) || filepath.Clean(c.Dir) != c.Dir {
			return reason.Errorf(reason.InvalidInput, "the directory of the cache %s is not a clean absolute path", c.Name)
		}
		seen[c.Name] = true
	}
	return nil
}

// Environment returns the call's variables including the injected ones, and the variables of its
// caches that the call does not set itself.
func Environment(s sandbox.Spec) []string {
	env := s.Pairs()
	for _, c := range s.Caches {
		env = extend(env, c.Env)
	}
	return env
}

// extend appends pairs whose names are not set yet.
func extend(env, pairs []string) []string {
	for _, pair := range pairs {
		name, _, _ := strings.Cut(pair, "=")
		if !has(env, name) {
			env = append(env, pair)
		}
	}
	return env
}

func has(env []string, name string) bool {
	for _, pair := range env {
		if strings.HasPrefix(pair, name+"=") {
			return true
		}
	}
	return false
}

// Try runs a program without effects in an empty workspace.
func Try(ctx context.Context, m *Machine, run func(context.Context, sandbox.Spec) (sandbox.Report, error)) (sandbox.Report, error) {
	dir, err := os.MkdirTemp("", disk.SharedPattern())
	if err != nil {
		return sandbox.Report{}, fmt.Errorf("creating a workspace for the probe: %w", err)
	}
	defer os.RemoveAll(dir)
	held, err := disk.Hold(dir)
	if err != nil {
		return sandbox.Report{}, fmt.Errorf("locking a workspace for the probe: %w", err)
	}
	defer held.Close()
	// If the daemon is root and the sandbox has no namespaces, another user enters the directory.
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // it stays empty
		return sandbox.Report{}, fmt.Errorf("creating a workspace for the probe: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return sandbox.Report{}, fmt.Errorf("opening a workspace for a trial: %w", err)
	}
	program, err := m.resolver.ResolveExecutable("true", command.SearchPath())
	if err != nil {
		return sandbox.Report{}, err
	}
	report, err := run(ctx, sandbox.Spec{Argv: []string{"true"}, Executable: program.Executable, WorkspaceRoot: dir})
	err = errors.Join(err, report.Layer.Close())
	if err == nil && (report.ExitCode == nil || *report.ExitCode != 0) {
		err = reason.Errorf(reason.SandboxUnavailable, "the trial ended with %s%s", describe(report), report.Stderr.Head)
	}
	return report, err
}

func describe(r sandbox.Report) string {
	switch {
	case r.TimedOut:
		return "a timeout"
	case r.Quota != "":
		return "the quota " + r.Quota
	case r.ExitCode != nil:
		return fmt.Sprintf("exit code %d: ", *r.ExitCode)
	}
	return "no result"
}

// SweepLayers removes the layers that an earlier daemon left in dir.
func SweepLayers(dir string) error {
	if dir == "" {
		return nil
	}
	return overlay.Sweep(dir)
}
