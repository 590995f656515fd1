package bubblewrap

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/inside"
)

// workspace is an opened root directory.
type workspace struct {
	dir      *os.File
	identity inside.Identity
	uid, gid int
	cwd      string
}

// openWorkspace opens the root without following any link, and checks that
// the working directory is a directory below it, itself reached without one:
// the caller has resolved it, and a link in it now leads elsewhere than planned.
func openWorkspace(root, cwd string) (*workspace, error) {
	if !filepath.IsAbs(root) || filepath.Clean(root) != root || root == "/" {
		return nil, reason.Errorf(reason.WorkspaceScope, "the root of the workspace is not a clean absolute path")
	}
	cwd, err := sandbox.CheckCwd(cwd)
	if err != nil {
		return nil, err
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	fd, err := unix.Openat2(unix.AT_FDCWD, root, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return nil, reason.Errorf(reason.WorkspaceScope, "the root of the workspace is missing, no directory, or reached through a symbolic link").
			WithRemedy("Declare the workspace by its real path.")
	}
	w := &workspace{dir: os.NewFile(uintptr(fd), "workspace"), cwd: cwd}
	if err := w.look(flags); err != nil {
		w.dir.Close()
		return nil, err
	}
	return w, nil
}

func (w *workspace) look(flags uint64) error {
	root := int(w.dir.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(root, &st); err != nil {
		return fmt.Errorf("looking at the workspace: %w", err)
	}
	w.identity = inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino}
	w.uid, w.gid = int(st.Uid), int(st.Gid)
	fd, err := unix.Openat2(root, w.cwd, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return reason.Errorf(reason.WorkspaceScope, "the working directory %q is not a directory inside the workspace", w.cwd)
	}
	return unix.Close(fd)
}

// viewer makes views of workspaces in which the owner's files belong to the
// sandbox's user, and files that the sandbox makes belong to the owner
// (mount_setattr(2), MOUNT_ATTR_IDMAP). It keeps one user namespace per owner.
type viewer struct {
	helper   *os.File
	uid, gid int

	mu     sync.Mutex
	owners map[[2]int]*os.File
}

// view returns a detached mount of the workspace. What is mounted below the
// workspace is not part of it.
func (v *viewer) view(w *workspace, readOnly bool) (*os.File, error) {
	const clone = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH
	fd, err := unix.OpenTree(int(w.dir.Fd()), "", clone)
	if err != nil {
		return nil, reason.Errorf(reason.SandboxUnavailable, "making a view of the workspace: %w", err).
			WithRemedy("Run palyrad with CAP_SYS_ADMIN, or as the ordinary user who owns the workspace.")
	}
	tree := os.NewFile(uintptr(fd), "view")
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if w.uid != v.uid || w.gid != v.gid {
		owner, err := v.owner(w.uid, w.gid)
		if err != nil {
			tree.Close()
			return nil, err
		}
		attr.Attr_set |= unix.MOUNT_ATTR_IDMAP
		attr.Userns_fd = uint64(owner.Fd())
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		tree.Close()
		return nil, reason.Errorf(reason.SandboxUnavailable, "mapping the owner of the workspace: %w", err).
			WithRemedy("Put the workspace on ext4, xfs, btrfs or tmpfs (Linux 5.12 or later), or give it to user %d and group %d.", v.uid, v.gid)
	}
	return tree, nil
}

// owner returns a user namespace in which id uid is the sandbox's user.
func (v *viewer) owner(uid, gid int) (*os.File, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	key := [2]int{uid, gid}
	if f := v.owners[key]; f != nil {
		return f, nil
	}
	f, err := v.makeNamespace(uid, gid)
	if err != nil {
		return nil, reason.Errorf(reason.SandboxUnavailable, "making a user namespace for the workspace's owner: %w", err)
	}
	if v.owners == nil {
		v.owners = map[[2]int]*os.File{}
	}
	v.owners[key] = f
	return f, nil
}

// makeNamespace starts the helper in a new user namespace, opens the
// namespace, and lets the helper go.
func (v *viewer) makeNamespace(uid, gid int) (*os.File, error) {
	in, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer in.Close()
	defer hold.Close()
	p, err := os.StartProcess(selfPath(inside.HelperFD), []string{helperName, inside.StageHold}, &os.ProcAttr{
		Dir: "/", Env: []string{},
		Files: []*os.File{in, nil, nil, nil, nil, v.helper},
		Sys: &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: v.uid, Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: v.gid, Size: 1}},
		},
	})
	if err != nil {
		return nil, err
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	hold.Close()
	if _, waitErr := p.Wait(); err == nil && waitErr != nil {
		f.Close()
		return nil, waitErr
	}
	return f, err
}

func (v *viewer) close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.owners {
		f.Close()
	}
	v.owners = nil
	return nil
}

// selfPath names a descriptor of the process that uses the name.
func selfPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
