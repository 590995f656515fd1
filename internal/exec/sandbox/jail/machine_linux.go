package jail

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"slices"
	"sync"

	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/seccomp"
)

const helperName = "palyra-init"

// Config configures the sandboxes of a Machine.
type Config struct {
	// Helper is the program palyra-init.
	Helper []byte
	// If the daemon is root, each sandbox has its own user ID, one of Users IDs starting at
	// FirstUser; see uids.Request. UserRecord keeps the choice between starts.
	FirstUser, Users int
	UserRecord       string
	// Filter selects the system call filter; Watch and Grants are ignored.
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
	host    host
	files   sharedFiles
	filters *filters
	room    room
	// state is nil if the disk is not monitored.
	state    *os.File
	users    *users
	views    *views
	resolver *command.Resolver
}

// NewMachine inspects the host. Missing features of the host are not an error: runs that need
// them are refused.
func NewMachine(c Config) (*Machine, error) {
	m := &Machine{resolver: new(command.Resolver), filters: newFilters(c.Filter), without: c.Without}
	var state, measured, shared, made error
	// The files are as much work as the rest.
	var files sync.WaitGroup
	files.Go(func() {
		m.files, shared = newSharedFiles(c.Helper)
		_, made = m.filters.with(seccomp.Grants{})
	})
	tree := cgroup.Find()
	if m.Without(LayerGroup) {
		tree = cgroup.None()
	}
	m.room = newRoom(tree, c.Room, !m.Without(AllRuns))
	if c.State != "" {
		m.state, state = os.Open(c.State)
	}
	m.host, measured = newHost()
	files.Wait()
	if err := errors.Join(state, measured, shared, made); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if os.Geteuid() == 0 {
		if m.Without(LayerUID) {
			m.users = &users{one: &User{}} // the daemon's own
		} else {
			m.users = newUsers(c)
		}
		m.views = &views{helper: m.files.helper.File}
	}
	return m, nil
}

// room limits all runs of a machine together.
type room struct {
	tree *cgroup.Tree
	// atOnce is the maximum number of concurrent runs. part is the limit of each run if no control
	// group limits all runs together. tight is sandbox.Status.Tight.
	atOnce int
	part   sandbox.Share
	tight  string
}

// newRoom reserves a part of the resources for the daemon. It limits all runs by one control
// group if grouped, or else each run separately. A group whose limits cannot be set counts as
// missing.
func newRoom(tree *cgroup.Tree, r sandbox.Room, grouped bool) room {
	bounds := cgroup.Bounds()
	share := r.Reserve.Of(bounds)
	all := room{tree: tree, tight: r.Tight(bounds)}
	if grouped && tree.Bound(share) != nil {
		_ = tree.Close()
		all.tree = cgroup.None()
	}
	if all.tree.Level() == cgroup.Rlimit {
		all.atOnce = r.AtOnce(share)
		all.part = share.Part(all.atOnce)
	}
	return all
}

// Status returns the status of the machine, for a backend to complete.
func (m *Machine) Status(tier sandbox.Tier, rung sandbox.Isolation, backend string) sandbox.Status {
	return sandbox.Status{
		Backend: backend, Tier: tier, Rung: rung, Limits: m.Level(), AtOnce: m.room.atOnce, Tight: m.room.tight, LandlockABI: m.host.landlock,
	}
}

// Close releases the resources shared by sandboxes. No Cell may be open.
func (m *Machine) Close() error {
	err := errors.Join(m.room.tree.Close(), m.users.close())
	if m.views != nil {
		m.views.close()
	}
	m.filters.close()
	closeAll([]*os.File{m.files.helper.File, m.files.outer.File, m.state})
	return err
}

// Sweep ends the processes that an earlier daemon left behind, and removes their control groups.
func (m *Machine) Sweep(ctx context.Context) error { return m.room.tree.Sweep(ctx) }

// Level returns the level of limits: cgroup.V2, V1 or Rlimit.
func (m *Machine) Level() string { return m.room.tree.Level() }

// Landlock returns the ABI that sandboxes use, 0 for none.
func (m *Machine) Landlock() int { return m.host.landlock }

// Resolver returns the resolver of programs, which caches their digests.
func (m *Machine) Resolver() *command.Resolver { return m.resolver }

// Root reports whether the daemon is root, so that sandboxes run as other users.
func (m *Machine) Root() bool { return m.users != nil }

// Without reports whether a layer is omitted.
func (m *Machine) Without(layer string) bool { return slices.Contains(m.without, layer) }

// OuterFilter returns a file with the filter for processes until the final filter is installed,
// positioned at its start. The caller closes the file.
func (m *Machine) OuterFilter() (*os.File, error) { return reopen(m.files.outer.File) }

// reopen returns another description of a memory file, with its own offset.
func reopen(f *os.File) (*os.File, error) { return os.Open(SelfPath(int(f.Fd()))) }

// Digest is "sha256:<hex>" over content.
func Digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
