package cgroup

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// viewMark makes this binary inspect the control groups in a separate mount namespace, in the
// state that the variable names.
const viewMark = "TEST_PALYRA_GROUPS"

const (
	viewAsIs     = "as they are"
	viewReadOnly = "read-only"
	viewNone     = "none"
)

// viewMain prints the level that it finds.
func viewMain(view string) int {
	const top = "/sys/fs/cgroup"
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil && view == viewReadOnly {
		err = unix.MountSetattr(unix.AT_FDCWD, top, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err == nil && view == viewNone {
		err = unix.Mount("tmpfs", top, "tmpfs", 0, "")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	t := Find()
	fmt.Println(t.Level())
	if t.Close() != nil {
		return 1
	}
	return 0
}

// Limits apply to each process if the control groups are read-only or do not exist. Control:
// the level in the same namespaces with unchanged groups is the machine's.
func TestMachinesWithoutGroups(t *testing.T) {
	t.Parallel()
	tree := newTree(t)
	for view, want := range map[string]string{viewAsIs: tree.Level(), viewReadOnly: Rlimit, viewNone: Rlimit} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = []string{viewMark + "=" + view}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
		}
		var log strings.Builder
		cmd.Stderr = &log
		out, err := cmd.Output()
		if err != nil && strings.Contains(err.Error(), "not permitted") {
			t.Skipf("this user can make no mount namespace: %v", err)
		}
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%s: limits by %q, want %q (%v %s)", view, got, want, err, &log)
		}
	}
}
