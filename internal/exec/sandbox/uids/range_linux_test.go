package uids

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// machine returns a root directory with the given files and a map of all IDs.
func machine(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	all := map[string]string{"proc/self/uid_map": "0 0 4294967295\n", "proc/self/gid_map": "0 0 4294967295\n", "etc/machine-id": t.Name()}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

func take(t *testing.T, q Request) *Range {
	t.Helper()
	r := must.Get(q.Take())(t)
	t.Cleanup(func() { must.Check(t, r.Close()) })
	return r
}

// TestTaken: every file of the machine that assigns IDs counts.
func TestTaken(t *testing.T) {
	t.Parallel()
	root := machine(t, map[string]string{
		"etc/passwd":             "root:x:0:0:root:/root:/bin/sh\nbroken\nann:x:1000:1000::/:/bin/sh\n",
		"etc/group":              "staff:x:50:\n",
		"etc/subuid":             "ann:100000:65536\nbroken:x:y\n",
		"etc/subgid":             "ann:300000:10\n",
		"etc/sssd/sssd.conf":     "[domain/a]\nldap_idmap_range_min = 5000000\nldap_idmap_range_max = 6000000\n[domain/b]\nmax_id = 300000\n",
		"etc/sssd/conf.d/c.conf": "[domain/c]\nmin_id = 7000000\nmax_id = 7000001\n",
		"etc/samba/smb.conf":     "[global]\n  idmap config CORP : range = 8000000-8999999\n  range = 1-2\n",
	})
	got := taken(root)
	for _, want := range []span{
		{0, 0}, {1000, 1000}, {50, 50}, {100_000, 165_535}, {300_000, 300_009}, {5_000_000, 6_000_000}, {200_000, 300_000}, {7_000_000, 7_000_001}, {8_000_000, 8_999_999},
	} {
		if i := slices.Index(got, want); i >= 0 {
			got = slices.Delete(got, i, i+1)
			continue
		}
		t.Errorf("%v is not taken", want)
	}
	if len(got) > 0 {
		t.Errorf("taken without a reason: %v", got)
	}
}

// TestGatewaysOfOneMachine: two palyrads have different IDs while both run, and each has the same
// IDs again after a restart.
func TestGatewaysOfOneMachine(t *testing.T) {
	t.Parallel()
	root := machine(t, nil)
	a, b := Request{Record: filepath.Join(root, "a"), root: root}, Request{Record: filepath.Join(root, "b"), root: root}
	first := must.Get(a.Take())(t)
	// The second one prefers the same IDs: its record is a copy, as in a restored state directory.
	must.Do(t, os.WriteFile(b.Record, must.Get(os.ReadFile(a.Record))(t), 0o600))
	second := take(t, b)
	if first.Count != DefaultCount || (span{first.First, first.First + first.Count - 1}).overlaps(span{second.First, second.First + second.Count - 1}) {
		t.Errorf("both have %d and %d", first.First, second.First)
	}
	must.Do(t, first.Close())
	if again := take(t, a); again.First != first.First { // control: the lock ended
		t.Errorf("after a restart %d, before it %d", again.First, first.First)
	}
	if text := string(must.Get(os.ReadFile(b.Record))(t)); strings.TrimSpace(text) != strconv.Itoa(second.First) {
		t.Errorf("recorded %q, taken %d", text, second.First)
	}
}

// TestRangesAreFree: a recorded or configured range that the machine assigns to others is not used.
func TestRangesAreFree(t *testing.T) {
	t.Parallel()
	root := machine(t, nil)
	q := Request{Record: filepath.Join(root, "record"), root: root}
	before := must.Get(q.Take())(t)
	must.Do(t, before.Close())
	must.Do(t, os.WriteFile(filepath.Join(root, "etc/subuid"), []byte("ann:"+strconv.Itoa(before.First+5)+":1\n"), 0o600))
	if after := take(t, q); after.First == before.First {
		t.Errorf("%d is in use although it is assigned", after.First)
	}
	configured := Request{First: before.First, Count: 10, root: root}
	if r, err := configured.Take(); reason.Of(err) != reason.SandboxUnavailable || r != nil {
		t.Errorf("a configured range that is assigned: %+v, %v", r, err)
	}
	configured.Count = 5 // control
	if r := take(t, configured); r.First != configured.First {
		t.Errorf("a configured range that is free: %+v", r)
	}
	for name, text := range map[string]string{"empty": "", "a system account": "0", "no number": "x", "not a block": strconv.Itoa(before.First + 1)} {
		must.Do(t, os.WriteFile(q.Record, []byte(text), 0o600))
		if first := q.recorded(); first != 0 {
			t.Errorf("the record %s is %d", name, first)
		}
	}
}

// TestRangesExist: the IDs exist in palyrad's user namespace, such as in a container.
func TestRangesExist(t *testing.T) {
	t.Parallel()
	small := machine(t, map[string]string{"proc/self/uid_map": "0 100000 65536\n", "proc/self/gid_map": "0 100000 65536\n"})
	if r := take(t, Request{root: small}); r.First < 20_480 || r.First+r.Count > 57_344 {
		t.Errorf("in a container: %+v", r)
	}
	one := machine(t, map[string]string{"proc/self/uid_map": "0 1000 1\n"})
	if r, err := (Request{root: one}).Take(); reason.Of(err) != reason.SandboxUnavailable || r != nil {
		t.Errorf("with one ID: %+v, %v", r, err)
	}
}

// asOrdinary calls do on a thread of an ordinary user.
func asOrdinary(t *testing.T, do func() error) {
	t.Helper()
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with this goroutine
		const user, keep = 31337, ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, user, keep); errno != 0 {
			failed <- errno
			return
		}
		failed <- do()
	}()
	must.Do(t, <-failed)
}

// TestNamesOfOrdinaryUsers: an ordinary user who takes the names of locks keeps palyrad from no
// range.
func TestNamesOfOrdinaryUsers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root is another user")
	}
	const block = 7 // no range begins there
	fd := must.Get(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	defer unix.Close(fd)
	must.Do(t, unix.Bind(fd, &unix.SockaddrUnix{Name: "@palyra-uids-" + strconv.Itoa(block)}))
	if _, free, err := hold(block); err != nil || !free {
		t.Errorf("a name without a listener: free %t, %v", free, err)
	}
	asOrdinary(t, func() error { return unix.Listen(fd, 1) })
	if _, free, err := hold(block); err != nil || !free {
		t.Errorf("a name of an ordinary user: free %t, %v", free, err)
	}
	must.Do(t, unix.Listen(fd, 1))
	if _, free, err := hold(block); err != nil || free { // control: the listener is root's
		t.Errorf("a name of root: free %t, %v", free, err)
	}
}
