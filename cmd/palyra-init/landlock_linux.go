package main

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// rulesetAttr is struct landlock_ruleset_attr of <linux/landlock.h>.
type rulesetAttr struct {
	fs, net, scoped uint64
}

// pathAttr is struct landlock_path_beneath_attr, which is packed: the kernel reads twelve bytes.
type pathAttr struct {
	allowed uint64
	parent  int32
}

const rulePathBeneath = 1

// Access rights by purpose.
const (
	rightsRead    = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	rightsExecute = rightsRead | unix.LANDLOCK_ACCESS_FS_EXECUTE
	rightsDevice  = rightsRead | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	rightsFull    = rightsExecute | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_REFER |
		unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_SYM |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR
	rightsTerminal = rightsDevice | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	rightsStore    = rightsFull &^ unix.LANDLOCK_ACCESS_FS_MAKE_SOCK
	rightsFile     = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	rightsAll = rightsFull | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

func rights(a inside.Access) (uint64, bool) {
	switch a {
	case inside.List:
		return unix.LANDLOCK_ACCESS_FS_READ_DIR, true
	case inside.Read:
		return rightsRead, true
	case inside.Execute:
		return rightsExecute, true
	case inside.Device:
		return rightsDevice, true
	case inside.Terminal:
		return rightsTerminal, true
	case inside.Store:
		return rightsStore, true
	case inside.Full:
		return rightsFull, true
	}
	return 0, false
}

// ruleset returns the rights that the given ABI can handle. With a network namespace, network
// rights are omitted: the namespace provides the isolation, and tests commonly run servers on its
// loopback.
func ruleset(abi int, denyTCP bool) (attr rulesetAttr, size uintptr) {
	attr.fs = rightsAll
	if abi < 3 {
		attr.fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi < 5 {
		attr.fs &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	size = unsafe.Sizeof(attr.fs)
	if denyTCP {
		attr.net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(attr.net)
	}
	if abi >= 6 {
		attr.scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size = unsafe.Sizeof(attr)
	}
	return attr, size
}

// restrict puts this thread under a Landlock ruleset. go-landlock restricts all threads of a
// process; here only one thread survives, and three system calls are sufficient.
func restrict(l inside.Landlock) error {
	attr, size := ruleset(l.ABI, l.DenyTCP)
	fd, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fail("creating the Landlock ruleset", errno)
	}
	defer unix.Close(int(fd))
	if err := holdSelf(l.Rules); err != nil {
		return fail("holding "+self, err)
	}
	for _, r := range l.Rules {
		if err := grant(int(fd), r, attr.fs); err != nil {
			return fail("granting "+r.Path, err)
		}
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fail("entering the Landlock ruleset", errno)
	}
	return nil
}

// self is the directory of a process that a rule may name.
const self = "/proc/self"

// holdSelf keeps the directory of this process open until the program starts, if a rule names
// it. The kernel may drop the directory when memory is short; procfs then creates another one,
// which no rule names.
func holdSelf(rules []inside.Rule) error {
	if !slices.ContainsFunc(rules, func(r inside.Rule) bool { return r.Path == self }) {
		return nil
	}
	_, err := unix.Open(self, unix.O_PATH|unix.O_CLOEXEC, 0)
	return err
}

func grant(ruleset int, r inside.Rule, handled uint64) error {
	allowed, ok := rights(r.Access)
	if !ok {
		return unix.EINVAL
	}
	parent, err := unix.Open(r.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(parent)
	var st unix.Stat_t
	if err := unix.Fstat(parent, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		allowed &= rightsFile // the kernel refuses directory rights on a file
	}
	attr := pathAttr{allowed: allowed & handled, parent: int32(parent)}
	_, _, errno := unix.RawSyscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), rulePathBeneath, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// provesLandlock tries an action that every user may perform on its own process and that no rule
// grants.
func provesLandlock() bool {
	fd, err := unix.Open("/proc/self/comm", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
	}
	return err == unix.EACCES
}
