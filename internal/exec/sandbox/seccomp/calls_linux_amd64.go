package seccomp

import "golang.org/x/sys/unix"

// auditArch is AUDIT_ARCH_X86_64 of <linux/audit.h>.
const auditArch = unix.AUDIT_ARCH_X86_64

// compatBit marks x32 calls, a second table of numbers next to the checked one.
const compatBit = 0x40000000

func legacyAllowed() []int {
	return []int{
		unix.SYS_ACCESS, unix.SYS_ALARM, unix.SYS_ARCH_PRCTL, unix.SYS_CHOWN, unix.SYS_DUP2, unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD,
		unix.SYS_FORK, unix.SYS_FUTIMESAT, unix.SYS_GET_THREAD_AREA, unix.SYS_GETDENTS, unix.SYS_GETPGRP, unix.SYS_INOTIFY_INIT, unix.SYS_LCHOWN,
		unix.SYS_LINK, unix.SYS_LSTAT, unix.SYS_PAUSE, unix.SYS_PIPE, unix.SYS_POLL, unix.SYS_READLINK, unix.SYS_RENAME, unix.SYS_RMDIR,
		unix.SYS_SELECT, unix.SYS_SET_THREAD_AREA, unix.SYS_SIGNALFD, unix.SYS_STAT, unix.SYS_SYMLINK, unix.SYS_TIME, unix.SYS_UNLINK, unix.SYS_UTIME,
		unix.SYS_UTIMES, unix.SYS_VFORK,
	}
}

func legacyDenied() []int {
	return []int{unix.SYS_IOPERM, unix.SYS_IOPL, unix.SYS_MODIFY_LDT, unix.SYS_USELIB}
}

func legacyHarmless() []int {
	return []int{
		unix.SYS__SYSCTL, unix.SYS_AFS_SYSCALL, unix.SYS_CREATE_MODULE, unix.SYS_EPOLL_CTL_OLD, unix.SYS_EPOLL_WAIT_OLD, unix.SYS_GET_KERNEL_SYMS,
		unix.SYS_GETPMSG, unix.SYS_PUTPMSG, unix.SYS_QUERY_MODULE, unix.SYS_SECURITY, unix.SYS_SYSFS, unix.SYS_TUXCALL, unix.SYS_USTAT, unix.SYS_VSERVER,
	}
}

func legacyRules() map[int]rule {
	return map[int]rule{
		unix.SYS_OPEN:  fileMode(1, 2),
		unix.SYS_CREAT: modeOnly(1),
		unix.SYS_CHMOD: modeOnly(1),
		unix.SYS_MKDIR: modeOnly(1),
		unix.SYS_MKNOD: nodeMode(1),
	}
}

func legacyName(nr int) string {
	switch nr {
	case unix.SYS_CHMOD:
		return "chmod"
	case unix.SYS_CREAT:
		return "creat"
	case unix.SYS_IOPERM:
		return "ioperm"
	case unix.SYS_IOPL:
		return "iopl"
	case unix.SYS_MKDIR:
		return "mkdir"
	case unix.SYS_MKNOD:
		return "mknod"
	case unix.SYS_MODIFY_LDT:
		return "modify_ldt"
	case unix.SYS_OPEN:
		return "open"
	case unix.SYS_USELIB:
		return "uselib"
	}
	return ""
}
