package jail

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/inside"
)

// Trial runs one attempt of palyra-init in a sandbox with some layers omitted.
type Trial func(ctx context.Context, without []string, s sandbox.Spec, attempt []string) (sandbox.Report, error)

// trial describes the examination of one layer.
type trial struct {
	layer string
	// attempt is the attempt of palyra-init.
	attempt []string
	// outside makes the control an attempt outside of any sandbox, because no sandbox can omit
	// this layer.
	outside bool
	limits  sandbox.Limits
	mode    sandbox.WorkspaceMode
	// network contains the hosts that the program may reach. allowed is an attempt that must
	// succeed with them.
	network *egress.Reach
	allowed []string
	// without is the layer that the control omits, "" for the examined layer itself.
	without string
}

// scene contains the objects that the attempts search for.
type scene struct {
	dir string
	// covered is a directory that every sandbox with mounts covers.
	covered string
	// services greet every client; both listen at one port.
	services []net.Listener
	served   sync.WaitGroup
	segment  int
	trials   []trial
}

// Examine tries an action that each layer forbids, once with the layer and once without it.
// layers are the layers that a run of the backend requests.
func (m *Machine) Examine(ctx context.Context, layers []string, try Trial) []sandbox.Examination {
	var list []sandbox.Examination
	s, err := newScene()
	if err != nil {
		return []sandbox.Examination{{Problem: err.Error(), Remedy: "Check the temporary directory of palyrad."}}
	}
	defer func() { _ = s.close() }()
	for _, t := range s.trials {
		switch why, absent := m.absent(t.layer); {
		case !slices.Contains(layers, t.layer):
		case absent:
			// Features that this machine does not have are not tried, because their absence is
			// not a weakness.
			list = append(list, sandbox.Examination{
				Layer: t.layer, Absent: true, Problem: "absent on this machine: " + why,
				Remedy: "See docs/sandbox.md for the purpose and the requirements of the layer.",
			})
		default:
			list = append(list, m.examine(ctx, s, t, try))
		}
	}
	return list
}

// absent reports whether a layer cannot be examined here, and why. Either the machine lacks the
// layer, or the machine lacks the object that the layer hides.
func (m *Machine) absent(layer string) (why string, absent bool) {
	if layer == LayerCgroupNS && m.Level() == cgroup.Rlimit {
		return "the machine has no control groups, and no path of them to hide", true
	}
	return m.lacks(layer)
}

// lacks reports whether this machine cannot provide a layer, and why.
func (m *Machine) lacks(layer string) (why string, lacks bool) {
	switch {
	case layer == LayerLandlock && m.host.landlock == 0:
		return "the kernel has no Landlock of ABI 2 or later", true
	case layer == LayerGroup && m.Level() == cgroup.Rlimit:
		return "control groups with memory and pids cannot be created; limits apply per process", true
	}
	return "", false
}

func (m *Machine) examine(ctx context.Context, s *scene, t trial, try Trial) sandbox.Examination {
	e := sandbox.Examination{Layer: t.layer}
	with, err := s.attempt(ctx, t, nil, try)
	if err != nil {
		e.Problem, e.Remedy = err.Error(), "`palyra status` shows the missing parts."
		return e
	}
	e.Denied, e.Detail = !with.Happened, with.Detail
	var without inside.Attempt
	if t.outside {
		without, err = m.files.attemptOutside(ctx, t)
	} else {
		without, err = s.attempt(ctx, t, []string{cmp.Or(t.without, t.layer)}, try)
	}
	e.Control = err == nil && without.Happened
	if t.allowed != nil && e.Control {
		err = s.allowed(ctx, t, try)
		e.Control = err == nil
	}
	switch {
	case !e.Denied:
		e.Problem = "the layer does not hold: " + with.Detail
		e.Remedy = "Do not run programs here until the cause is found; report it."
	case err != nil:
		e.Problem, e.Remedy = "the control attempt could not run: "+err.Error(), "`palyra status` shows the missing parts."
	case !e.Control:
		e.Problem = "the effect of the layer is unknown, because the attempt fails without it as well: " + without.Detail
		e.Remedy = "Another mechanism of this machine forbids the same; no action is required."
	}
	return e
}

// allowed tries an action that must be permitted.
func (s *scene) allowed(ctx context.Context, t trial, try Trial) error {
	t.attempt = t.allowed
	a, err := s.attempt(ctx, t, nil, try)
	if err == nil && !a.Happened {
		err = fmt.Errorf("a permitted action failed: %s", a.Detail)
	}
	return err
}

// attempt runs one attempt in a sandbox.
func (s *scene) attempt(ctx context.Context, t trial, without []string, try Trial) (inside.Attempt, error) {
	canary := filepath.Join(s.work(), "file")
	if err := os.WriteFile(canary, []byte("before"), 0o600); err != nil {
		return inside.Attempt{}, err
	}
	report, err := try(ctx, without, sandbox.Spec{
		Argv: []string{helperName}, WorkspaceRoot: s.work(), Workspace: t.mode, Limits: t.limits, Network: t.network,
	}, t.attempt)
	if err := errors.Join(err, report.Layer.Close()); err != nil {
		return inside.Attempt{}, err
	}
	if report.Quota != "" || report.TimedOut {
		return inside.Attempt{Detail: "the program was stopped for its " + report.Quota}, nil
	}
	a, err := readAttempt(report.Stdout.Head)
	if err != nil {
		const most = 300
		return a, fmt.Errorf("the attempt ended with %s%s", describe(report), strings.ToValidUTF8(string(report.Stderr.Head[:min(most, len(report.Stderr.Head))]), ""))
	}
	if t.layer == LayerCopy {
		// A write succeeds in both cases; only its destination differs.
		content, err := os.ReadFile(canary)
		if a.Happened = a.Happened && err == nil && string(content) != "before"; !a.Happened {
			a.Detail = "the write did not reach the workspace"
		}
	}
	return a, nil
}

// attemptOutside runs one attempt as an ordinary process.
func (s sharedFiles) attemptOutside(ctx context.Context, t trial) (inside.Attempt, error) {
	cmd := exec.CommandContext(ctx, SelfPath(inside.HelperFD), append([]string{inside.StageProbe}, t.attempt...)...)
	cmd.Env, cmd.Dir = []string{}, "/"
	cmd.ExtraFiles = []*os.File{s.outer.File, s.outer.File, s.helper.File}
	out, err := cmd.Output()
	if err != nil {
		return inside.Attempt{}, fmt.Errorf("trying it outside: %w", err)
	}
	return readAttempt(out)
}

func readAttempt(text []byte) (a inside.Attempt, err error) {
	err = inside.Decode(text, &a)
	return a, err
}

func newScene() (*scene, error) {
	s := &scene{segment: -1}
	var err error
	if s.dir, err = os.MkdirTemp("/var/tmp", "palyra-examine-"); err != nil {
		return nil, fmt.Errorf("preparing the examination: %w", err)
	}
	if s.covered, err = os.MkdirTemp("/tmp", "palyra-examine-"); err != nil {
		return nil, errors.Join(fmt.Errorf("preparing the examination: %w", err), s.close())
	}
	if err := s.fill(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *scene) work() string { return filepath.Join(s.dir, "work") }

func (s *scene) fill() error {
	//nolint:gosec // a program of another user has to reach them, if nothing stops it
	if err := errors.Join(os.Chmod(s.dir, 0o755), os.Mkdir(s.work(), 0o755)); err != nil {
		return err
	}
	var err error
	if err := s.serve(); err != nil {
		return fmt.Errorf("listening for the examination: %w", err)
	}
	if s.segment, err = unix.SysvShmGet(unix.IPC_PRIVATE, os.Getpagesize(), unix.IPC_CREAT|0o666); err != nil {
		return fmt.Errorf("creating shared memory for the examination: %w", err)
	}
	s.trials, err = s.list()
	return err
}

// list returns the trial of each layer.
func (s *scene) list() ([]trial, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	mapping, err := os.ReadFile("/proc/self/uid_map")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(s.services[0].Addr().String())
	if err != nil {
		return nil, err
	}
	rules, err := egress.ParseRules([]string{service + ":" + port})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(s.dir, "work")
	const memory = 64 << 20
	return []trial{
		{layer: LayerUserNS, attempt: []string{inside.TryMapping, strings.Join(strings.Fields(string(mapping)), " ")}, outside: true},
		{layer: LayerMounts, attempt: []string{inside.TryFile, s.covered}, outside: true},
		{layer: LayerPIDs, attempt: []string{inside.TryProcess, strconv.Itoa(os.Getpid())}},
		{layer: LayerNetwork, attempt: []string{inside.TryConnect, service, port}},
		{
			layer: AllowedHosts, attempt: []string{inside.TryConnect, otherService, port}, allowed: []string{inside.TryConnect, service, port},
			network: &egress.Reach{Rules: egress.Rules{Allow: rules}}, without: LayerNetwork,
		},
		{layer: LayerIPC, attempt: []string{inside.TrySegment, strconv.Itoa(s.segment)}},
		{layer: LayerUTS, attempt: []string{inside.TryHostname, host}},
		{layer: LayerCgroupNS, attempt: []string{inside.TryGroup}},
		{layer: LayerUID, attempt: []string{inside.TryRoot}},
		{layer: LayerCaps, attempt: []string{inside.TryCapability}},
		{layer: LayerNNP, attempt: []string{inside.TryPrivileges}, outside: true},
		{layer: LayerSeccomp, attempt: []string{inside.TryCall}},
		{layer: LayerLandlock, attempt: []string{inside.TryWrite, "/proc/self/comm"}},
		{layer: LayerGroup, attempt: []string{inside.TryMemory, "96"}, limits: sandbox.Limits{Memory: memory, Tmp: 4 * memory}},
		{layer: LayerRlimits, attempt: []string{inside.TryFiles, "64"}, limits: sandbox.Limits{OpenFiles: 32}},
		{layer: LayerCopy, attempt: []string{inside.TryWrite, "file"}, mode: sandbox.CopyOnWrite},
		{layer: LayerMasks, attempt: []string{inside.TryKernel, "/proc/cmdline"}},
		{layer: LayerDescriptors, attempt: []string{inside.TryStrays}},
		{layer: LayerEnvironment, attempt: []string{inside.TryEnviron, foreign()}},
		{layer: LayerRoot, attempt: []string{inside.TryFile, file}},
		{layer: LayerSession, attempt: []string{inside.TrySession}},
	}, nil
}

// The addresses of a scene's services, on loopback.
const (
	service      = "127.0.0.1"
	otherService = "127.0.0.2"
)

// serve starts the services.
func (s *scene) serve() error {
	port := "0"
	for _, address := range []string{service, otherService} {
		l, err := net.Listen("tcp4", net.JoinHostPort(address, port))
		if err != nil {
			return err
		}
		s.services = append(s.services, l)
		s.served.Go(func() { greet(l) })
		if _, port, err = net.SplitHostPort(l.Addr().String()); err != nil {
			return err
		}
	}
	return nil
}

// greet sends a greeting to every client until the listener is closed.
func greet(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Write([]byte("palyra\n"))
		conn.Close()
	}
}

// foreign returns the name of a variable that only the daemon has, "" if no such variable exists.
func foreign() string {
	own := append(command.Environment("", nil, nil), "TMPDIR=", "GIT_CONFIG_NOSYSTEM=", "GIT_CONFIG_SYSTEM=") // set by some backends
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if name != "" && !slices.ContainsFunc(own, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
			return name
		}
	}
	return ""
}

func (s *scene) close() error {
	for _, l := range s.services {
		l.Close()
	}
	s.served.Wait()
	if s.segment >= 0 {
		_, _ = unix.SysvShmCtl(s.segment, unix.IPC_RMID, nil)
	}
	if s.covered != "" {
		_ = os.Remove(s.covered)
	}
	return os.RemoveAll(s.dir)
}

// Variant returns the same machine with some layers omitted. It shares all resources with the
// original, and only the original must be closed.
func (m *Machine) Variant(without ...string) *Machine {
	v := *m
	v.without = append(slices.Clone(m.without), without...)
	if slices.Contains(without, LayerGroup) {
		v.room.tree = cgroup.None()
	}
	return &v
}
