package uids

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/origin"
)

// DefaultCount is the number of IDs of a range, which is the number of concurrent sandboxes.
const DefaultCount = blockSize

// regions are the IDs among which a range is chosen, best first. The first one is above the IDs
// that sssd assigns by default, and below the IDs that systemd reserves for foreign files. The
// second one serves containers, whose user namespace often has 65,536 IDs.
var regions = []span{{2_000_204_800, 2_147_352_575}, {20_480, 57_343}}

// Request describes a range.
type Request struct {
	// First is the configured first ID, 0 to choose a range. Count is the number of IDs, 0 for
	// DefaultCount.
	First, Count int
	// Record is a file that keeps the choice between starts, "" for none.
	Record string
	// root is the root directory of the machine, "" for "/". Tests set it.
	root string
}

// Range are the IDs from First on. While it is open, no other Range of the machine has one of them.
type Range struct {
	First, Count int
	locks        []int
}

// Close releases the range; on a nil Range it does nothing. No process may have one of its IDs.
func (r *Range) Close() error {
	if r == nil {
		return nil
	}
	var err error
	for _, lock := range r.locks {
		err = errors.Join(err, unix.Close(lock))
	}
	r.locks = nil
	return err
}

// Take returns a range. A configured range that overlaps with assigned IDs is an error.
func (q Request) Take() (*Range, error) {
	if q.Count == 0 {
		q.Count = DefaultCount
	}
	assigned := taken(q.path(""))
	if q.First != 0 {
		ids := span{q.First, q.First + q.Count - 1}
		if i := slices.IndexFunc(assigned, ids.overlaps); i >= 0 {
			return nil, reason.Errorf(reason.SandboxUnavailable, "the users of sandboxes, %d to %d, overlap with %d to %d, which this machine assigns to others", ids.first, ids.last, assigned[i].first, assigned[i].last).
				WithRemedy("Choose another process_runner.uid_base, or remove it: palyrad then finds unassigned user IDs.")
		}
		return &Range{First: q.First, Count: q.Count}, nil
	}
	users, groups := mapped(q.path(""))
	for first := range q.candidates() {
		ids := span{first, first + q.Count - 1}
		if slices.ContainsFunc(assigned, ids.overlaps) || !ids.within(users) || !ids.within(groups) {
			continue
		}
		if r, err := q.claim(first); r != nil || err != nil {
			return r, err
		}
	}
	return nil, reason.Errorf(reason.SandboxUnavailable, "no %d consecutive user IDs are free for sandboxes", q.Count).
		WithRemedy("Set process_runner.uid_base and uid_count to user IDs that exist in palyrad's user namespace and belong to no account.")
}

// claim returns the range, or nil if another palyrad or an account has one of its IDs.
func (q Request) claim(first int) (*Range, error) {
	r := &Range{First: first, Count: q.Count}
	for block := first; block < first+q.Count; block += blockSize {
		lock, free, err := hold(block)
		if err != nil || !free {
			return nil, errors.Join(err, r.Close())
		}
		if lock >= 0 {
			r.locks = append(r.locks, lock)
		}
	}
	if first == q.recorded() {
		return r, nil
	}
	if q.inDirectory(first) || q.inDirectory(first+q.Count-1) {
		return nil, r.Close()
	}
	if q.Record != "" {
		if err := os.WriteFile(q.Record, []byte(strconv.Itoa(first)+"\n"), 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("recording the user IDs of sandboxes: %w", err), r.Close())
		}
	}
	return r, nil
}

// candidates returns the first IDs of ranges: the recorded one, and then all, from one on that
// differs between state directories and machines.
func (q Request) candidates() iter.Seq[int] {
	return func(yield func(int) bool) {
		if first := q.recorded(); first != 0 && !yield(first) {
			return
		}
		start := int(q.start())
		for _, region := range regions {
			blocks := (region.last - region.first + 1) / blockSize
			for i := range blocks {
				first := region.first + (start+i)%blocks*blockSize
				if first+q.Count-1 <= region.last && !yield(first) {
					return
				}
			}
		}
	}
}

// start is a number that depends on the machine and on the state directory, or on this process.
func (q Request) start() uint32 {
	sum := fnv.New32a()
	id, _ := os.ReadFile(q.path("etc/machine-id"))
	_, _ = sum.Write(id)
	which := q.Record
	if which == "" {
		which = origin.Mark()
	}
	_, _ = sum.Write([]byte(which))
	return sum.Sum32()
}

// recorded returns the recorded first ID, 0 for none. A record that is not one of the candidates
// counts as none.
func (q Request) recorded() int {
	if q.Record == "" {
		return 0
	}
	text, _ := os.ReadFile(q.Record)
	first, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || !slices.ContainsFunc(regions, func(s span) bool {
		return s.first <= first && first+q.Count-1 <= s.last && (first-s.first)%blockSize == 0
	}) {
		return 0
	}
	return first
}

func (q Request) path(name string) string { return filepath.Join("/", q.root, name) }

// patience is the timeout of a query to a directory service.
const patience = 2 * time.Second

// inDirectory reports whether a directory service such as LDAP has an account with an ID. It
// queries only if the C library does (nsswitch.conf(5)).
func (q Request) inDirectory(id int) bool {
	services := ""
	eachLine(q.path("etc/nsswitch.conf"), func(line string) {
		if names, found := strings.CutPrefix(line, "passwd:"); found {
			services = names
		}
	})
	local := []string{"files", "compat", "systemd", "db"}
	if !slices.ContainsFunc(strings.Fields(services), func(s string) bool { return !slices.Contains(local, s) }) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out, err := exec.CommandContext(ctx, "getent", "passwd", strconv.Itoa(id)).Output()
	return err == nil && len(out) > 0
}

// blockSize is the number of IDs that one lock protects.
const blockSize = 4096

// hold locks a block of IDs until the descriptor is closed. The lock is a name of an abstract
// socket (unix(7)), which leaves nothing on the machine. free is false if another process of root
// has it. A name that an ordinary user has taken protects nothing, and is ignored.
func hold(block int) (lock int, free bool, err error) {
	name := &unix.SockaddrUnix{Name: "@palyra-uids-" + strconv.Itoa(block)}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, false, fmt.Errorf("reserving user IDs for sandboxes: %w", err)
	}
	err = unix.Bind(fd, name)
	if err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err == nil {
		return fd, true, nil
	}
	defer unix.Close(fd)
	if !errors.Is(err, unix.EADDRINUSE) {
		return -1, false, fmt.Errorf("reserving user IDs for sandboxes: %w", err)
	}
	holder := -1
	if unix.Connect(fd, name) == nil {
		if cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			holder = int(cred.Uid)
		}
	}
	return -1, holder != os.Geteuid(), nil
}
