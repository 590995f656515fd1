package jail

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/inside"
)

// mostNamespaces is the maximum number of cached user namespaces for views.
const mostNamespaces = 64

// views creates detached mounts of directories in which the owner's files belong to a sandbox's
// user, and files that the sandbox creates belong to the owner (mount_setattr(2),
// MOUNT_ATTR_IDMAP). It caches one user namespace per pair.
type views struct {
	helper *os.File

	mu    sync.Mutex
	pairs map[pair]*os.File
	order []pair
}

type pair struct{ owner, user User }

// view returns a detached mount of a directory with the ownership mapped to a sandbox's user,
// for a daemon that is root. The view does not contain mounts below the directory. The caller
// closes the view.
func (v *views) view(d *Directory, user User, readOnly bool) (*os.File, error) {
	attr := unix.MountAttr{}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if owner := (User{d.UID, d.GID}); owner != user {
		namespace, err := v.namespace(pair{owner, user})
		if err != nil {
			return nil, reason.Errorf(reason.SandboxUnavailable, "creating a user namespace for the workspace's owner: %w", err)
		}
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(namespace.Fd())
		defer namespace.Close()
	}
	return detach(d, &attr)
}

// Detached returns a detached mount of a directory without mapping.
func Detached(d *Directory) (*os.File, error) { return detach(d, &unix.MountAttr{}) }

func detach(d *Directory, attr *unix.MountAttr) (*os.File, error) {
	const clone = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	fd, err := unix.OpenTree(int(d.File.Fd()), "", clone)
	if err != nil {
		return nil, reason.Errorf(reason.SandboxUnavailable, "creating a view of the workspace: %w", err).
			WithRemedy("Run palyrad with CAP_SYS_ADMIN, or as the ordinary user who owns the workspace.")
	}
	tree := os.NewFile(uintptr(fd), "view")
	attr.Attr_set |= unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, attr); err != nil {
		tree.Close()
		return nil, reason.Errorf(reason.SandboxUnavailable, "mapping the owner of the workspace: %w", err).
			WithRemedy("Move the workspace to ext4, xfs, btrfs or tmpfs (Linux 5.12 or later), or run palyrad as the user who owns it.")
	}
	return tree, nil
}

// namespace returns a user namespace that maps the owner's id to the user's id on the host. The
// caller closes its copy.
func (v *views) namespace(p pair) (*os.File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	f := v.pairs[p]
	if f == nil {
		var err error
		if f, err = v.make(p); err != nil {
			return nil, err
		}
		v.keep(p, f)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "namespace"), nil
}

// keep caches a namespace, replacing the oldest one.
func (v *views) keep(p pair, f *os.File) {
	if v.pairs == nil {
		v.pairs = map[pair]*os.File{}
	}
	if len(v.order) == mostNamespaces {
		v.pairs[v.order[0]].Close()
		delete(v.pairs, v.order[0])
		v.order = v.order[1:]
	}
	v.pairs[p], v.order = f, append(v.order, p)
}

// make starts the helper in a new user namespace, opens the namespace, and ends the helper.
func (v *views) make(p pair) (*os.File, error) {
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	defer hold.Close()
	// The kernel ends the tracing of a program when the thread that started it exits.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	process, err := v.hold(p, in, true)
	if err != nil {
		process, err = v.hold(p, in, false)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", process.Pid))
	if ended := end(process); err == nil && ended != nil {
		f.Close()
		return nil, ended
	}
	return f, err
}

// hold starts the helper in the user namespace of a pair, where it waits for the end of in. A
// stopped helper waits before its first instruction (PTRACE_TRACEME), which saves the start of its
// runtime, but Yama, a security module or a container may forbid tracing.
func (v *views) hold(p pair, in *os.File, stopped bool) (*os.Process, error) {
	return startProcess(SelfPath(inside.HelperFD), []string{helperName, inside.StageHold}, &os.ProcAttr{
		Dir: "/", Env: []string{},
		Files: []*os.File{in, nil, nil, nil, nil, v.helper},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: p.owner.UID, HostID: p.user.UID, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: p.owner.GID, HostID: p.user.GID, Size: 1}},
			Ptrace:      stopped,
		},
	})
}

// end kills a process and waits until it has exited.
func end(p *os.Process) error {
	if err := p.Kill(); err != nil {
		return err
	}
	_, err := p.Wait()
	return err
}

func (v *views) close() {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.pairs {
		f.Close()
	}
	v.pairs, v.order = nil, nil
}

// SelfPath returns the path of a descriptor for the process that uses it.
func SelfPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
