package main

import (
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"palyra/test/attack/attempt"
)

// kernel are system calls that change the machine. Their arguments are invalid, so that a kernel
// that handles the call returns a known error and changes nothing.
func kernel() map[string]attack {
	bad := uintptr(0xffffffff)
	return map[string]attack{
		"keyctl":        call(unix.SYS_KEYCTL, answers(), 0, uintptr(0xfffffffd), 1), // the session keyring's id
		"add-key":       addKey,
		"request-key":   requestKey,
		"bpf":           bpf,
		"perf":          call(unix.SYS_PERF_EVENT_OPEN, answers(unix.EINVAL, unix.EFAULT), 0, 0, 0, bad, bad),
		"userfaultfd":   call(unix.SYS_USERFAULTFD, answers(), 1), // UFFD_USER_MODE_ONLY
		"quotactl":      call(unix.SYS_QUOTACTL, answers(unix.EINVAL, unix.ENODEV, unix.ENOSYS), bad),
		"syslog":        call(unix.SYS_SYSLOG, answers(), 10), // SYSLOG_ACTION_SIZE_BUFFER
		"swapon":        call(unix.SYS_SWAPON, answers(unix.EINVAL), addressOf([]byte("/none\x00")), bad),
		"settimeofday":  badTime,
		"clock-settime": call(unix.SYS_CLOCK_SETTIME, answers(unix.EINVAL), 9999, 0),
		"adjtimex":      adjtimex,
		"reboot":        reboot,
		"kexec":         call(unix.SYS_KEXEC_LOAD, answers(unix.EINVAL, unix.ENOSYS), 0, 0, 0, bad),
		"init-module":   call(unix.SYS_INIT_MODULE, answers(unix.ENOEXEC, unix.ENOSYS), addressOf(make([]byte, 64)), 64, addressOf(make([]byte, 1))),
		"finit-module":  call(unix.SYS_FINIT_MODULE, answers(unix.EINVAL, unix.ENOSYS), 0, addressOf(make([]byte, 1)), bad),
		"delete-module": call(unix.SYS_DELETE_MODULE, answers(unix.ENOENT, unix.ENOSYS), addressOf([]byte("palyra_none\x00")), 0),
		"acct":          call(unix.SYS_ACCT, answers(unix.ENOENT, unix.ENOSYS), addressOf([]byte("/none\x00"))),
		"swapoff":       call(unix.SYS_SWAPOFF, answers(unix.ENOENT), addressOf([]byte("/none\x00"))),
		"iopl":          iopl,
		"personality":   personality,
		"fanotify":      fanotify,
		"sethostname":   sethostname,
	}
}

// answers are errors that show that the kernel handled the call.
func answers(list ...unix.Errno) []unix.Errno { return list }

func call(trap uintptr, kernel []unix.Errno, args ...uintptr) attack {
	return func([]string) (string, error) {
		var a [6]uintptr
		copy(a[:], args)
		_, _, errno := unix.Syscall6(trap, a[0], a[1], a[2], a[3], a[4], a[5])
		return attempt.Reached(errno, kernel...)
	}
}

// addressOf copies b to memory with a fixed address. Raw calls take addresses as numbers, which the
// garbage collector does not track.
func addressOf(b []byte) uintptr {
	page, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0
	}
	copy(page, b)
	return uintptr(unsafe.Pointer(&page[0]))
}

func addKey([]string) (string, error) {
	_, err := unix.AddKey("user", "palyra", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return "", err
}

func requestKey([]string) (string, error) {
	_, err := unix.RequestKey("user", "palyra-none", "", 0)
	if errors.Is(err, unix.ENOKEY) || errors.Is(err, unix.ENOENT) {
		return "the kernel looked for it", nil
	}
	return "", err
}

// bpf requests a pinned object, which requires no privilege.
func bpf([]string) (string, error) {
	const get = 7 // BPF_OBJ_GET
	attr := make([]byte, 128)
	*(*uint64)(unsafe.Pointer(&attr[0])) = uint64(addressOf([]byte("/none\x00")))
	_, _, errno := unix.Syscall(unix.SYS_BPF, get, addressOf(attr), uintptr(len(attr)))
	return attempt.Reached(errno, unix.ENOENT, unix.EINVAL)
}

func badTime([]string) (string, error) {
	tv := make([]byte, 16)
	*(*int64)(unsafe.Pointer(&tv[8])) = 10_000_000 // microseconds
	_, _, errno := unix.Syscall(unix.SYS_SETTIMEOFDAY, addressOf(tv), 0, 0)
	return attempt.Reached(errno, unix.EINVAL)
}

func adjtimex([]string) (string, error) {
	_, err := unix.Adjtimex(&unix.Timex{})
	return "", err
}

// reboot in a pid namespace would end its first process. The kernel refuses this command after the
// check of the capability.
func reboot([]string) (string, error) {
	_, _, errno := unix.Syscall6(unix.SYS_REBOOT, unix.LINUX_REBOOT_MAGIC1, unix.LINUX_REBOOT_MAGIC2, 0, 0, 0, 0)
	return attempt.Reached(errno, unix.EINVAL)
}

// personality makes all readable memory executable.
func personality([]string) (string, error) {
	const readImpliesExec = 0x0400000
	_, _, errno := unix.Syscall(unix.SYS_PERSONALITY, readImpliesExec, 0, 0)
	return "", failure(errno)
}

func fanotify([]string) (string, error) {
	_, err := unix.FanotifyInit(unix.FAN_REPORT_FID|unix.FAN_CLOEXEC, unix.O_RDONLY)
	return "", err
}

func sethostname([]string) (string, error) {
	return "", unix.Sethostname([]byte("evil"))
}

// tables are the system call tables of other architectures.
func tables() map[string]attack {
	const x32 = 0x40000000
	return map[string]attack{
		"x32": func([]string) (string, error) {
			_, _, errno := unix.Syscall(x32|uintptr(unix.SYS_GETPID), 0, 0, 0)
			return attempt.Reached(errno, unix.ENOSYS)
		},
		"int80": func([]string) (string, error) {
			const getpid = 20 // of the 32-bit table
			pid := int80(getpid)
			if pid <= 0 {
				return "", unix.Errno(-pid)
			}
			return runtime.GOARCH, nil
		},
	}
}
