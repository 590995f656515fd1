package jail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/seccomp"
)

const (
	helperName = "palyra-init"
	// leastLandlock is the minimum ABI. Below it, renaming between directories is always refused,
	// which breaks git.
	leastLandlock = 2
	// mostLandlock is the newest ABI that the helper supports.
	mostLandlock = 7
)

// Config configures the sandboxes of a Machine.
type Config struct {
	// Helper is the program palyra-init.
	Helper []byte
	// If the daemon is root, each sandbox has its own user ID, one of Users IDs starting at
	// FirstUser.
	FirstUser, Users int
	// Filter selects the system call filter; Watch is ignored.
	Filter seccomp.Options
	// State is a directory of the daemon, on whose disk runs must leave free space.
	State string
	// Room is the resource limit of all runs together.
	Room sandbox.Room
	// Without lists layers that are omitted and then not requested. Only an examination of the
	// layers and tests set it.
	Without []string
}

// Machine is the state of the host for its sandboxes. It is safe for concurrent use.
type Machine struct {
	without []string
	helper  file
	// plain and watched are the filter without and with a listener.
	plain, watched file
	// outer is the filter for processes until the final filter is installed.
	outer file
	table seccomp.Table
	// state is nil if the disk is not monitored.
	state    *os.File
	landlock int
	tree     *cgroup.Tree
	// atOnce is the maximum number of concurrent runs. part is the limit of each run if no control
	// group limits all runs together. tight is sandbox.Status.Tight.
	atOnce int
	part   sandbox.Share
	tight  string
	users  *users
	views  *views
	// own are the daemon's namespaces: a run must be in other namespaces.
	own map[string]uint64
	// filters is the number of system call filters of the daemon itself.
	filters int
	// hard are the daemon's hard limits, which a run cannot exceed.
	hard     map[int]uint64
	kernel   string
	resolver *command.Resolver
	// null is the host's null device, which covers masked files.
	null string
}

// file is a memory file that sandboxes share, and its digest.
type file struct {
	*os.File
	sha string
}

// NewMachine inspects the host. Missing features of the host are not an error: runs that need
// them are refused.
func NewMachine(c Config) (*Machine, error) {
	m := &Machine{resolver: new(command.Resolver), without: c.Without, landlock: landlockABI(), tree: cgroup.Find(), null: "/dev/null"}
	if slices.Contains(c.Without, LayerGroup) {
		m.tree = cgroup.None()
	}
	m.divide(c.Room)
	if err := errors.Join(m.openState(c.State), m.measure(), m.takeFilters(c.Filter), m.takeHelper(c.Helper)); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if os.Geteuid() == 0 {
		m.users = newUsers(c)
		if m.Without(LayerUID) {
			m.users = &users{one: &User{}} // the daemon's own
		}
		m.views = &views{helper: m.helper.File}
	}
	return m, nil
}

// divide reserves a part of the resources for the daemon. It limits all runs by one control
// group, or else each run separately. A group whose limits cannot be set counts as missing.
func (m *Machine) divide(r sandbox.Room) {
	bounds := cgroup.Bounds()
	share := r.Reserve.Of(bounds)
	m.tight = r.Tight(bounds)
	if !m.Without(AllRuns) && m.tree.Bound(share) != nil {
		_ = m.tree.Close()
		m.tree = cgroup.None()
	}
	if m.Level() == cgroup.Rlimit {
		m.atOnce = r.AtOnce(share)
		m.part = share.Part(m.atOnce)
	}
}

// Status returns the status of the machine, for a backend to complete.
func (m *Machine) Status(tier sandbox.Tier, rung sandbox.Isolation, backend string) sandbox.Status {
	return sandbox.Status{
		Backend: backend, Tier: tier, Rung: rung, Limits: m.Level(), AtOnce: m.atOnce, Tight: m.tight, LandlockABI: m.landlock,
	}
}

// Close releases the resources shared by sandboxes. No Cell may be open.
func (m *Machine) Close() error {
	err := m.tree.Close()
	if m.views != nil {
		m.views.close()
	}
	for _, f := range []file{m.helper, m.plain, m.watched, m.outer, {File: m.state}} {
		if f.File != nil {
			f.Close()
		}
	}
	return err
}

// Sweep ends the processes that an earlier daemon left behind, and removes their control groups.
func (m *Machine) Sweep(ctx context.Context) error { return m.tree.Sweep(ctx) }

// Level returns the level of limits: cgroup.V2, V1 or Rlimit.
func (m *Machine) Level() string { return m.tree.Level() }

// Landlock returns the ABI that sandboxes use, 0 for none.
func (m *Machine) Landlock() int { return m.landlock }

// Resolver returns the resolver of programs, which caches their digests.
func (m *Machine) Resolver() *command.Resolver { return m.resolver }

// Root reports whether the daemon is root, so that sandboxes run as other users.
func (m *Machine) Root() bool { return m.users != nil }

// Without reports whether a layer is omitted.
func (m *Machine) Without(layer string) bool { return slices.Contains(m.without, layer) }

func (m *Machine) openState(dir string) (err error) {
	if dir != "" {
		m.state, err = os.Open(dir)
	}
	return err
}

func (m *Machine) measure() error {
	m.own, m.hard = map[string]uint64{}, map[int]uint64{}
	for _, n := range namespaceLayers {
		var st unix.Stat_t
		if err := unix.Stat("/proc/self/ns/"+n.kind, &st); err != nil {
			return fmt.Errorf("reading the daemon's namespaces: %w", err)
		}
		m.own[n.kind] = st.Ino
	}
	for resource := range unix.RLIMIT_RTTIME + 1 {
		var l syscall.Rlimit
		if err := syscall.Getrlimit(resource, &l); err != nil {
			return fmt.Errorf("reading the daemon's limits: %w", err)
		}
		m.hard[resource] = l.Max
	}
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return fmt.Errorf("reading the daemon's filters: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		// Linux before 5.9 does not count the filters; the helper requires the count.
		if count, ok := strings.CutPrefix(line, "Seccomp_filters:"); ok {
			m.filters, _ = strconv.Atoi(strings.TrimSpace(count))
		}
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("reading the kernel version: %w", err)
	}
	m.kernel = unix.ByteSliceToString(name.Release[:])
	return nil
}

func (m *Machine) takeFilters(o seccomp.Options) error {
	m.table = seccomp.NewTable(o)
	for _, f := range []struct {
		to    *file
		watch bool
	}{{&m.plain, false}, {&m.watched, true}} {
		o.Watch = f.watch
		program, err := seccomp.Program(o)
		if err != nil {
			return err
		}
		if *f.to, err = share("filter", seccomp.Bytes(program), DataFile); err != nil {
			return err
		}
	}
	program, err := seccomp.Outer()
	if err != nil {
		return err
	}
	m.outer, err = share("outer filter", seccomp.Bytes(program), DataFile)
	return err
}

// OuterFilter returns a file with the filter for processes until the final filter is installed,
// positioned at its start. The caller closes the file.
func (m *Machine) OuterFilter() (*os.File, error) { return reopen(m.outer.File) }

// reopen returns another description of a memory file, with its own offset.
func reopen(f *os.File) (*os.File, error) { return os.Open(SelfPath(int(f.Fd()))) }

func (m *Machine) takeHelper(program []byte) (err error) {
	m.helper, err = share(helperName, program, ExecutableFile)
	return err
}

func share(name string, content []byte, as func(string, []byte) (*os.File, error)) (file, error) {
	f, err := as(name, content)
	return file{f, Digest(content)}, err
}

// landlockABI queries the kernel (landlock_create_ruleset(2)); 0 means none.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 || abi < leastLandlock {
		return 0
	}
	return min(int(abi), mostLandlock)
}

// Digest is "sha256:<hex>" over content.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
