package bubblewrap

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/egress"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
	"palyra/internal/sandbox/seccomp"
)

const (
	defaultBwrap = "/usr/bin/bwrap"
	helperName   = "palyra-init"
	// leastLandlock is the ABI below which renaming between directories is
	// always refused, which breaks git.
	leastLandlock = 2
	// mostLandlock is the newest ABI whose rights the helper knows.
	mostLandlock = 7
)

// Runner runs programs in Tier C. It may be used by several goroutines.
type Runner struct {
	cfg Config
	// problem says why nothing can run on this machine, nil when it can.
	problem *reason.Error
	version string

	helper    *os.File
	helperSHA string
	filter    []byte
	filterSHA string
	landlock  int
	ladder    ladder
	// viewer is nil when the daemon is an ordinary user.
	viewer *viewer
	// own are the daemon's namespaces: a run must be in others.
	own map[string]uint64
	// hard are the daemon's hard limits, which a run cannot exceed.
	hard     map[int]uint64
	resolver sandbox.Resolver
	// stem begins the names of this daemon's control groups.
	stem string
	runs atomic.Uint64

	// weaken lets a test of this package switch a layer off, to show that the
	// read-back notices; tolerant lets the program run all the same, to show
	// what the layer was good for. Nothing in the product sets them.
	weaken   func(*inside.Spec, *[]string)
	tolerant bool
}

// New looks at the machine and returns a Runner. What is missing is no error:
// Probe says it, and Run refuses with it.
func New(cfg Config) (*Runner, error) {
	return newRunner(cfg, embeddedHelper())
}

func newRunner(cfg Config, helper []byte) (*Runner, error) {
	if cfg.Bwrap == "" {
		cfg.Bwrap = defaultBwrap
	}
	if cfg.UID == 0 {
		cfg.UID = DefaultUID
	}
	if cfg.GID == 0 {
		cfg.GID = cfg.UID
	}
	r := &Runner{cfg: cfg, ladder: findLadder(), landlock: landlockABI()}
	r.stem = fmt.Sprintf("%s%d-%s", groupPrefix, os.Getpid(), startTime(os.Getpid()))
	if err := errors.Join(r.measureSelf(), r.buildFilter()); err != nil {
		return nil, err
	}
	r.findBwrap()
	if err := r.takeHelper(helper); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 {
		r.viewer = &viewer{helper: r.helper, uid: cfg.UID, gid: cfg.GID}
	}
	return r, nil
}

// Close releases the helper. No run may be in progress.
func (r *Runner) Close() error {
	var err error
	if r.viewer != nil {
		err = r.viewer.close()
	}
	if r.helper != nil {
		err = errors.Join(err, r.helper.Close())
	}
	return err
}

func (r *Runner) measureSelf() error {
	r.own = map[string]uint64{}
	for _, kind := range []string{"mnt", "pid", "net", "user", "ipc", "uts", "cgroup"} {
		var st unix.Stat_t
		if err := unix.Stat("/proc/self/ns/"+kind, &st); err != nil {
			return fmt.Errorf("looking at the daemon's namespaces: %w", err)
		}
		r.own[kind] = st.Ino
	}
	r.hard = map[int]uint64{}
	for resource := range unix.RLIMIT_RTTIME + 1 {
		var l syscall.Rlimit
		if err := syscall.Getrlimit(resource, &l); err != nil {
			return fmt.Errorf("looking at the daemon's limits: %w", err)
		}
		r.hard[resource] = l.Max
	}
	return nil
}

func (r *Runner) buildFilter() error {
	program, err := seccomp.Program()
	if err != nil {
		return err
	}
	r.filter = seccomp.Bytes(program)
	r.filterSHA = digest(r.filter)
	return nil
}

// findBwrap asks for the version and refuses a set-user-ID installation, which
// would run as root.
func (r *Runner) findBwrap() {
	info, err := os.Stat(r.cfg.Bwrap)
	if err != nil {
		r.problem = reason.Errorf(reason.SandboxUnavailable, "bubblewrap is not installed at %s", r.cfg.Bwrap).
			WithRemedy("On Debian and Ubuntu: apt-get install bubblewrap. On Fedora: dnf install bubblewrap.")
		return
	}
	if info.Mode()&os.ModeSetuid != 0 {
		r.problem = reason.Errorf(reason.SandboxUnavailable, "%s is set-user-ID root", r.cfg.Bwrap).
			WithRemedy("chmod u-s %s and allow user namespaces.", r.cfg.Bwrap)
		return
	}
	cmd := exec.Command(r.cfg.Bwrap, "--version")
	cmd.Env, cmd.Dir = []string{}, "/"
	text, err := cmd.Output()
	if err != nil {
		r.problem = reason.Errorf(reason.SandboxUnavailable, "%s does not run: %w", r.cfg.Bwrap, err)
		return
	}
	r.version = strings.TrimSpace(string(text))
}

func (r *Runner) takeHelper(program []byte) error {
	if len(program) == 0 {
		if r.problem == nil {
			r.problem = reason.Errorf(reason.SandboxUnavailable, "palyrad was built without palyra-init").
				WithRemedy("Build it with `make build`, which puts the helper in.")
		}
		return nil
	}
	f, err := executableFile(helperName, program)
	if err != nil {
		return err
	}
	r.helper, r.helperSHA = f, digest(program)
	return nil
}

// landlockABI asks the kernel (landlock_create_ruleset(2)); 0 means none.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < leastLandlock {
		return 0
	}
	return min(int(abi), mostLandlock)
}

// Run runs one program; see sandbox.Runner.
func (r *Runner) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	if !r.cfg.Enabled {
		return sandbox.Report{}, reason.Errorf(reason.SandboxDisabled, "running programs is switched off")
	}
	if err := check(s); err != nil {
		return sandbox.Report{}, err
	}
	if r.problem != nil {
		return sandbox.Report{}, r.problem
	}
	if err := ctx.Err(); err != nil {
		return sandbox.Report{}, reason.Errorf(reason.Cancelled, "the call was cancelled before the program started")
	}
	j, err := r.prepare(s)
	if err != nil {
		return sandbox.Report{}, err
	}
	report, err := j.run(ctx)
	return report, errors.Join(err, j.close())
}

// check refuses what no sandbox would accept, before anything is opened.
func check(s sandbox.Spec) error {
	if err := sandbox.CheckArgv(s.Argv); err != nil {
		return err
	}
	if err := sandbox.CheckEnv(s.Env); err != nil {
		return err
	}
	if err := s.Limits.Check(); err != nil {
		return err
	}
	if s.Executable.Path == "" || s.Executable.SHA256 == "" {
		return reason.Errorf(reason.InvalidInput, "the program was not resolved")
	}
	if s.Egress != egress.Strict || len(s.EgressHosts) > 0 {
		return reason.Errorf(reason.EgressDenied, "programs run offline; egress %s with %d hosts is not available yet", s.Egress, len(s.EgressHosts)).
			WithRemedy("Leave the hosts out, or fetch with http.fetch.")
	}
	return nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
