//go:build darwin || linux

package seatbelt

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/inside"
)

// job is one run with all its resources. close releases them.
type job struct {
	runner *Runner
	spec   sandbox.Spec
	limits sandbox.Limits
	// open selects openProfile.
	open bool

	// base is the run's directory: it contains a canary, and the directories for the program.
	base     string
	listener net.Listener
	order    order
	profile  profile
	args     []string

	child          []*os.File
	word, findings *os.File
	stdout, stderr *os.File

	seen       finding
	applied    []string
	downgrades []string
	started    bool
}

// openProfile is a profile that forbids nothing.
const openProfile = "(version 1)\n(allow default)\n"

// prepare opens, checks and builds all resources of the run.
func (j *job) prepare() error {
	dir, place, err := j.workspace()
	if err != nil {
		return err
	}
	if err := j.runner.visible(j.spec); err != nil {
		return err
	}
	program, err := j.runner.resolver.OpenExecutable(j.spec.Executable)
	if err != nil {
		return err
	}
	defer program.Close()
	file, err := identityOf(j.spec.Executable.Path)
	if err != nil {
		return reason.Errorf(reason.BindingMismatch, "the program %s no longer exists", j.spec.Executable.Path)
	}
	if err := j.places(); err != nil {
		return fmt.Errorf("creating the directory of a run: %w", err)
	}
	j.order = order{
		Dir: dir, Place: place, Exec: j.spec.Executable.Path, File: file,
		Argv: j.spec.Argv, Env: j.environment(), Rlimits: rlimits(j.limits),
		Tries: tries{Canary: filepath.Join(j.base, "canary"), Make: j.forbiddenName(), Dial: j.listener.Addr().String()},
	}
	return j.arguments()
}

// workspace checks the root and returns the working directory with its identity.
func (j *job) workspace() (string, inside.Identity, error) {
	var none inside.Identity
	root := j.spec.WorkspaceRoot
	if !filepath.IsAbs(root) || filepath.Clean(root) != root || root == "/" {
		return "", none, reason.Errorf(reason.WorkspaceScope, "the root of the workspace is not a clean absolute path")
	}
	if real, err := filepath.EvalSymlinks(root); err != nil || real != root {
		return "", none, reason.Errorf(reason.WorkspaceScope, "the root of the workspace is missing or reached through a symbolic link").
			WithRemedy("Declare the workspace by its real path.")
	}
	cwd, err := command.CheckCwd(j.spec.Cwd)
	if err != nil {
		return "", none, err
	}
	dir := filepath.Join(root, cwd)
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = errors.New("not a directory")
	}
	if real, evalErr := filepath.EvalSymlinks(dir); err != nil || evalErr != nil || real != dir {
		return "", none, reason.Errorf(reason.WorkspaceScope, "the working directory %q is not a directory inside the workspace", cwd)
	}
	place, err := identityOf(dir)
	// A directory's size and times change with its content.
	return dir, inside.Identity{Dev: place.Dev, Ino: place.Ino}, err
}

// places creates the run's directory, its canary and the listener that must not be reachable.
func (j *job) places() error {
	var err error
	pattern := fmt.Sprintf("%s%d-", runPrefix, os.Getpid())
	if j.base, err = os.MkdirTemp(j.runner.cfg.RunDir, pattern); err != nil {
		return err
	}
	for _, dir := range []string{j.home(), j.tmp()} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(j.base, "canary"), []byte("not for programs\n"), 0o600); err != nil {
		return err
	}
	j.listener, err = net.Listen("tcp", "127.0.0.1:0")
	return err
}

func (j *job) private() string { return filepath.Join(j.base, "inside") }
func (j *job) home() string    { return filepath.Join(j.private(), "home") }
func (j *job) tmp() string     { return filepath.Join(j.private(), "tmp") }

// forbiddenName returns a protected name, which the profile does not let the program create in
// any mode. It does not exist in the workspace, so that the attempt is harmless.
func (j *job) forbiddenName() string {
	return filepath.Join(j.spec.WorkspaceRoot, "."+filepath.Base(j.base)+".pth")
}

// environment returns command.Environment with the directories of this run and its caches.
func (j *job) environment() []string {
	var env []string
	for _, pair := range command.Environment(j.spec.Executable.Path, j.spec.Env, j.spec.Toolchains) {
		if !strings.HasPrefix(pair, "HOME=") {
			env = append(env, pair)
		}
	}
	for _, cache := range j.spec.Caches {
		for _, pair := range cache.Env {
			env = append(env, strings.ReplaceAll(pair, sandbox.CacheMount+"/"+cache.Name, cache.Dir))
		}
	}
	return append(env, "HOME="+j.home(), "TMPDIR="+j.tmp())
}

func (j *job) network() bool { return j.spec.Egress != egress.Strict }

func (j *job) mode() sandbox.WorkspaceMode {
	if j.spec.Workspace == sandbox.Direct {
		return sandbox.Direct
	}
	return sandbox.ReadOnly
}

// arguments sets the profile and the arguments of sandbox-exec.
func (j *job) arguments() error {
	j.profile = profile{
		workspace: j.spec.WorkspaceRoot, direct: j.mode() == sandbox.Direct, private: j.private(),
		helper: j.runner.helper, roots: slices.Concat(j.runner.cfg.ReadRoots, command.Shown(j.spec.Toolchains)), network: j.network(),
		protected: j.spec.Protected, tag: filepath.Base(j.base),
	}
	for _, cache := range j.spec.Caches {
		j.profile.caches = append(j.profile.caches, cache.Dir)
	}
	text, err := j.profile.text()
	if err != nil {
		return err
	}
	if j.open {
		text = openProfile
	}
	j.args = []string{filepath.Base(j.runner.exec), "-p", text}
	for _, param := range j.profile.params() {
		j.args = append(j.args, "-D", param)
	}
	j.args = append(append(j.args, j.runner.helper), j.runner.helperArgs...)
	return nil
}

// rlimits returns the limits that the helper sets on itself. They apply to every process of the
// run individually. Memory limits are omitted because macOS does not enforce them. Process
// limits are omitted because macOS counts all processes of a user.
func rlimits(l sandbox.Limits) []inside.Rlimit {
	const mib = 1 << 20
	cpu := uint64(math.Ceil(l.CPU.Seconds()))
	list := []inside.Rlimit{
		{Name: "cpu", Resource: unix.RLIMIT_CPU, Soft: cpu, Hard: cpu + 2},
		{Name: "fsize", Resource: unix.RLIMIT_FSIZE, Soft: uint64(l.FileSize), Hard: uint64(l.FileSize)},
		{Name: "nofile", Resource: unix.RLIMIT_NOFILE, Soft: uint64(l.OpenFiles), Hard: uint64(l.OpenFiles)},
		{Name: "stack", Resource: unix.RLIMIT_STACK, Soft: 8 * mib, Hard: 64 * mib},
		{Name: "memlock", Resource: unix.RLIMIT_MEMLOCK, Soft: 64 << 10, Hard: 64 << 10},
		{Name: "core", Resource: unix.RLIMIT_CORE},
	}
	for i := range list {
		var own syscall.Rlimit
		if syscall.Getrlimit(list[i].Resource, &own) == nil {
			list[i].Hard = min(list[i].Hard, own.Max)
			list[i].Soft = min(list[i].Soft, list[i].Hard)
		}
	}
	return list
}

// judge compares the findings of the helper with the requested layers, and returns the required
// layers that are not in force.
func (j *job) judge() (unproved []string) {
	f := j.seen
	add := func(ok bool, layer string) {
		if ok {
			j.applied = append(j.applied, layer)
		}
	}
	add(f.Denied.Read && f.Denied.Write, layerFiles)
	add(f.Denied.Make, layerProtected)
	add(j.limitsHold(), layerRlimits)
	add(f.Open != nil && len(f.Open) == 0, layerDescriptors)
	add(f.Leader, layerSession)
	add(f.Denied.Dial, layerNetwork)
	j.downgrades = slices.Clone(limitations)
	if j.network() {
		j.downgrades = append(j.downgrades, layerNetwork+": egress "+j.spec.Egress.String()+" leaves the host's network open")
	}
	for _, layer := range slices.Concat(requested(j.network()), j.spec.Required) {
		if !slices.Contains(j.applied, layer) && !slices.Contains(unproved, layer) {
			unproved = append(unproved, layer)
		}
	}
	return unproved
}

func (j *job) limitsHold() bool {
	for _, l := range j.order.Rlimits {
		if got, ok := j.seen.Rlimits[l.Name]; !ok || got != l.Soft {
			return false
		}
	}
	return true
}

// close releases the resources of the run and removes its directory.
func (j *job) close() error {
	for _, f := range slices.Concat(j.child, []*os.File{j.word, j.findings, j.stdout, j.stderr}) {
		if f != nil {
			f.Close()
		}
	}
	if j.listener != nil {
		j.listener.Close()
	}
	if j.base == "" {
		return nil
	}
	return removeTree(j.base)
}
