package main

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mounts are attacks that change the mounts of the process and its children.
func mounts() map[string]attack {
	return map[string]attack{
		"mount":         func([]string) (string, error) { return "", mountTmpfs("/tmp") },
		"bind":          func([]string) (string, error) { return "", unix.Mount("/workspace", "/tmp", "", unix.MS_BIND, "") },
		"remount":       remount,
		"umount":        func([]string) (string, error) { return "", unix.Unmount("/dev/shm", unix.MNT_DETACH) },
		"pivot-root":    pivotRoot,
		"fsopen":        fsopen,
		"fsmount":       fsmount,
		"open-tree":     openTree,
		"move-mount":    moveMount,
		"mount-setattr": mountSetattr,
		"fspick":        fspick,
		"name-handle":   nameHandle,
		"open-handle":   openHandle,
	}
}

func mountTmpfs(dir string) error { return unix.Mount("tmpfs", dir, "tmpfs", 0, "") }

// remount removes the write protection of the root.
func remount([]string) (string, error) {
	return "", unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, "")
}

func pivotRoot([]string) (string, error) {
	if err := mountTmpfs("/tmp"); err != nil {
		return "", err
	}
	if err := os.Mkdir("/tmp/old", 0o755); err != nil {
		return "", err
	}
	return "", unix.PivotRoot("/tmp", "/tmp/old")
}

func fsopen([]string) (string, error) {
	_, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	return "", err
}

// newTmpfs creates a detached file system.
func newTmpfs() (int, error) {
	fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	if err := unix.FsconfigCreate(fd); err != nil {
		return -1, err
	}
	return unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
}

func fsmount([]string) (string, error) {
	_, err := newTmpfs()
	return "", err
}

func openTree([]string) (string, error) {
	_, err := unix.OpenTree(unix.AT_FDCWD, "/tmp", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	return "", err
}

func moveMount([]string) (string, error) {
	fd, err := newTmpfs()
	if err != nil {
		return "", err
	}
	return "", unix.MoveMount(fd, "", unix.AT_FDCWD, "/tmp", unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func mountSetattr([]string) (string, error) {
	return "", unix.MountSetattr(unix.AT_FDCWD, "/tmp", 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOEXEC})
}

func fspick([]string) (string, error) {
	_, err := unix.Fspick(unix.AT_FDCWD, "/tmp", unix.FSPICK_CLOEXEC)
	return "", err
}

func nameHandle([]string) (string, error) {
	_, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/tmp", 0)
	return "", err
}

// openHandle opens a directory by its inode number, without checks of its parents.
func openHandle([]string) (string, error) {
	if err := os.Mkdir("/tmp/by-handle", 0o755); err != nil {
		return "", err
	}
	handle, _, err := unix.NameToHandleAt(unix.AT_FDCWD, "/tmp/by-handle", 0)
	if err != nil {
		return "", err
	}
	dir, err := unix.Open("/tmp", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	_, err = unix.OpenByHandleAt(dir, handle, unix.O_RDONLY|unix.O_DIRECTORY)
	return "", err
}

// rings are the commands of io_uring, which the kernel runs without a system call filter.
func rings() map[string]attack {
	return map[string]attack{
		"ring-socket":  func([]string) (string, error) { return ring(opSocket) },
		"ring-connect": func([]string) (string, error) { return ring(opConnect) },
		"ring-openat":  func([]string) (string, error) { return ring(opOpenat) },
	}
}

// Commands of <linux/io_uring.h>.
const (
	opConnect = 16
	opOpenat  = 18
	opSocket  = 45
)

// ringParams is struct io_uring_params.
type ringParams struct {
	sqEntries, cqEntries, flags, threadCPU, threadIdle, features, wqFD uint32
	_                                                                  [3]uint32
	sq, cq                                                             [10]uint32
}

// submission is struct io_uring_sqe.
type submission struct {
	opcode, flags uint8
	priority      uint16
	fd            int32
	offset, addr  uint64
	length, op    uint32
	user          uint64
	_             [3]uint64
}

// ring creates a ring, submits one command and returns its result.
func ring(opcode uint8) (string, error) {
	var p ringParams
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return "", errno
	}
	const offSQ, offCQ, offSQEs = 0, 0x8000000, 0x10000000
	sq, err1 := ringMap(fd, offSQ, int(p.sq[6])+4*int(p.sqEntries))
	cq, err2 := ringMap(fd, offCQ, int(p.cq[5])+16*int(p.cqEntries))
	entries, err3 := ringMap(fd, offSQEs, 64*int(p.sqEntries))
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	s := (*submission)(unsafe.Pointer(&entries[0]))
	name := append([]byte("/etc/passwd"), 0)
	listener := new(unix.RawSockaddrInet4)
	switch s.opcode = opcode; opcode {
	case opSocket:
		s.fd, s.offset = unix.AF_UNIX, unix.SOCK_STREAM
	case opOpenat:
		s.fd, s.addr = unix.AT_FDCWD, uint64(uintptr(unsafe.Pointer(&name[0])))
	case opConnect:
		client, err := listenHere(listener)
		if err != nil {
			return "", err
		}
		s.fd, s.addr, s.offset = int32(client), uint64(uintptr(unsafe.Pointer(listener))), unix.SizeofSockaddrInet4
	}
	word := func(b []byte, at uint32) *uint32 { return (*uint32)(unsafe.Pointer(&b[at])) }
	*word(sq, p.sq[6]) = 0 // the index of the one entry
	*word(sq, p.sq[1])++   // the tail
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, fd, 1, 1, 1, 0, 0); errno != 0 {
		return "", errno
	}
	if result := int32(*word(cq, p.cq[5]+8)); result < 0 {
		return "", unix.Errno(-result)
	}
	return "the kernel carried it out", nil
}

func ringMap(fd uintptr, offset int64, size int) ([]byte, error) {
	return unix.Mmap(int(fd), offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
}

// listenHere listens on loopback and returns a socket to connect with.
func listenHere(at *unix.RawSockaddrInet4) (int, error) {
	server, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return -1, err
	}
	if err := errors.Join(unix.Bind(server, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(server, 1)); err != nil {
		return -1, err
	}
	name, err := unix.Getsockname(server)
	if err != nil {
		return -1, err
	}
	v4, ok := name.(*unix.SockaddrInet4)
	if !ok {
		return -1, unix.EAFNOSUPPORT
	}
	port := [2]byte{byte(v4.Port >> 8), byte(v4.Port)}
	*at = unix.RawSockaddrInet4{Family: unix.AF_INET, Port: *(*uint16)(unsafe.Pointer(&port)), Addr: v4.Addr}
	return unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
}
