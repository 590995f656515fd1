//go:build linux && (amd64 || arm64)

package seccomp

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Name is the name of a system call that a filter may report, and its number
// for others.
func Name(nr int) string {
	if name := legacyName(nr); name != "" {
		return name
	}
	switch nr {
	case unix.SYS_ACCT:
		return "acct"
	case unix.SYS_ADD_KEY:
		return "add_key"
	case unix.SYS_ADJTIMEX:
		return "adjtimex"
	case unix.SYS_BPF:
		return "bpf"
	case unix.SYS_CHROOT:
		return "chroot"
	case unix.SYS_CLOCK_ADJTIME:
		return "clock_adjtime"
	case unix.SYS_CLOCK_SETTIME:
		return "clock_settime"
	case unix.SYS_CLONE:
		return "clone"
	case unix.SYS_DELETE_MODULE:
		return "delete_module"
	case unix.SYS_EXECVEAT:
		return "execveat"
	case unix.SYS_FANOTIFY_INIT:
		return "fanotify_init"
	case unix.SYS_FANOTIFY_MARK:
		return "fanotify_mark"
	case unix.SYS_FCHMOD:
		return "fchmod"
	case unix.SYS_FCHMODAT:
		return "fchmodat"
	case unix.SYS_FCHMODAT2:
		return "fchmodat2"
	case unix.SYS_FINIT_MODULE:
		return "finit_module"
	case unix.SYS_FSCONFIG:
		return "fsconfig"
	case unix.SYS_FSMOUNT:
		return "fsmount"
	case unix.SYS_FSOPEN:
		return "fsopen"
	case unix.SYS_FSPICK:
		return "fspick"
	case unix.SYS_INIT_MODULE:
		return "init_module"
	case unix.SYS_PRLIMIT64:
		return "prlimit64"
	case unix.SYS_SCHED_SETAFFINITY:
		return "sched_setaffinity"
	case unix.SYS_SCHED_SETATTR:
		return "sched_setattr"
	case unix.SYS_SCHED_SETPARAM:
		return "sched_setparam"
	case unix.SYS_SCHED_SETSCHEDULER:
		return "sched_setscheduler"
	case unix.SYS_SETPRIORITY:
		return "setpriority"
	case unix.SYS_IOPRIO_SET:
		return "ioprio_set"
	case unix.SYS_IOCTL:
		return "ioctl"
	case unix.SYS_KCMP:
		return "kcmp"
	case unix.SYS_KEXEC_FILE_LOAD:
		return "kexec_file_load"
	case unix.SYS_KEXEC_LOAD:
		return "kexec_load"
	case unix.SYS_KEYCTL:
		return "keyctl"
	case unix.SYS_LOOKUP_DCOOKIE:
		return "lookup_dcookie"
	case unix.SYS_LSM_SET_SELF_ATTR:
		return "lsm_set_self_attr"
	case unix.SYS_MEMFD_CREATE:
		return "memfd_create"
	case unix.SYS_MKDIRAT:
		return "mkdirat"
	case unix.SYS_MKNODAT:
		return "mknodat"
	case unix.SYS_MOUNT:
		return "mount"
	case unix.SYS_MOUNT_SETATTR:
		return "mount_setattr"
	case unix.SYS_MOVE_MOUNT:
		return "move_mount"
	case unix.SYS_NAME_TO_HANDLE_AT:
		return "name_to_handle_at"
	case unix.SYS_NFSSERVCTL:
		return "nfsservctl"
	case unix.SYS_OPENAT:
		return "openat"
	case unix.SYS_OPEN_BY_HANDLE_AT:
		return "open_by_handle_at"
	case unix.SYS_OPEN_TREE:
		return "open_tree"
	case unix.SYS_OPEN_TREE_ATTR:
		return "open_tree_attr"
	case unix.SYS_PERF_EVENT_OPEN:
		return "perf_event_open"
	case unix.SYS_PERSONALITY:
		return "personality"
	case unix.SYS_PIDFD_GETFD:
		return "pidfd_getfd"
	case unix.SYS_PIVOT_ROOT:
		return "pivot_root"
	case unix.SYS_PROCESS_MADVISE:
		return "process_madvise"
	case unix.SYS_PROCESS_MRELEASE:
		return "process_mrelease"
	case unix.SYS_PROCESS_VM_READV:
		return "process_vm_readv"
	case unix.SYS_PROCESS_VM_WRITEV:
		return "process_vm_writev"
	case unix.SYS_PTRACE:
		return "ptrace"
	case unix.SYS_QUOTACTL:
		return "quotactl"
	case unix.SYS_QUOTACTL_FD:
		return "quotactl_fd"
	case unix.SYS_REBOOT:
		return "reboot"
	case unix.SYS_REQUEST_KEY:
		return "request_key"
	case unix.SYS_SECCOMP:
		return "seccomp"
	case unix.SYS_SETDOMAINNAME:
		return "setdomainname"
	case unix.SYS_SETHOSTNAME:
		return "sethostname"
	case unix.SYS_SETNS:
		return "setns"
	case unix.SYS_SETTIMEOFDAY:
		return "settimeofday"
	case unix.SYS_SOCKET:
		return "socket"
	case unix.SYS_SOCKETPAIR:
		return "socketpair"
	case unix.SYS_SWAPOFF:
		return "swapoff"
	case unix.SYS_SWAPON:
		return "swapon"
	case unix.SYS_SYSLOG:
		return "syslog"
	case unix.SYS_UMOUNT2:
		return "umount2"
	case unix.SYS_UNSHARE:
		return "unshare"
	case unix.SYS_USERFAULTFD:
		return "userfaultfd"
	case unix.SYS_VHANGUP:
		return "vhangup"
	}
	return strconv.Itoa(nr)
}
