//go:build linux && (amd64 || arm64)

package seccomp

import "golang.org/x/sys/unix"

// Options configure a filter.
type Options struct {
	// Watch reports denied calls. They get SECCOMP_RET_USER_NOTIF,
	// and the notifier returns their errno (package notify). Without a notifier they get ENOSYS.
	Watch bool
	// StrictExec denies running programs that are not in a file system.
	StrictExec bool
	// NoNetwork denies TCP and UDP, for runs without a network namespace.
	NoNetwork bool
	// NoIPC denies message queues, semaphores and shared memory without a file, for runs without
	// an IPC namespace.
	NoIPC bool
	// NoProcesses denies changing the limits and priorities of processes by number, for runs
	// without a process namespace.
	NoProcesses bool
	// Grants allow calls to runs in which other layers contain their effects.
	Grants Grants
}

// Grants are groups of calls that only some runs may make.
type Grants struct {
	// LocalSockets allows Unix sockets, for runs in which no socket of another program is
	// reachable: the workspace is a copy, and the network namespace is separate.
	LocalSockets bool
	// Terminals allows a session to take a terminal, for runs whose only terminals are their own.
	Terminals bool
	// Tracing allows ptrace(2) and its relatives, for runs with a process namespace and a Landlock
	// domain, which a tracer cannot leave. Since Linux 4.8 the kernel filters a system call after a
	// tracer has changed it, so the filter holds for traced processes as well.
	Tracing bool
}

// Table is a filter as a map from system call numbers to rules, which Go code can evaluate
// (Errno). It does not depend on Options.Watch.
type Table map[int]rule

// NewTable returns the table of the architecture of this build.
func NewTable(o Options) Table {
	t := Table(legacyRules())
	t.put(allowed(), verdict{})
	t.put(denied(), attack(unix.EPERM))
	t.put(harmless(), verdict{errno: unix.EPERM})
	for nr, r := range commonRules() {
		t[nr] = r
	}
	if o.StrictExec {
		t[unix.SYS_EXECVEAT] = rule{{[]check{anyBit(4, unix.AT_EMPTY_PATH)}, attack(unix.EPERM)}, otherwise(verdict{})}
		t[unix.SYS_MEMFD_CREATE] = rule{{[]check{anyBit(1, unix.MFD_NOEXEC_SEAL)}, verdict{}}, otherwise(attack(unix.EPERM))}
	}
	if o.NoNetwork {
		t[unix.SYS_SOCKET] = socket(verdict{errno: unix.EAFNOSUPPORT})
	}
	if o.Grants.LocalSockets {
		t[unix.SYS_SOCKET] = append(localSockets(), t[unix.SYS_SOCKET]...)
		t[unix.SYS_SOCKETPAIR] = append(localSockets(), t[unix.SYS_SOCKETPAIR]...)
	}
	if o.Grants.Terminals {
		t[unix.SYS_IOCTL] = append(rule{{[]check{equal(1, unix.TIOCSCTTY)}, verdict{}}}, t[unix.SYS_IOCTL]...)
	}
	if o.Grants.Tracing {
		t.put([]int{unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV}, verdict{})
	}
	if o.NoIPC {
		t.put(shared(), unknown())
	}
	if o.NoProcesses {
		for _, nr := range []int{
			unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETATTR, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETSCHEDULER,
		} {
			t[nr] = ownOnly(0)
		}
		// PRIO_USER and IOPRIO_WHO_USER select all processes of a user, including the daemon.
		const ioprioUser = 3 // IOPRIO_WHO_USER of <linux/ioprio.h>
		t[unix.SYS_SETPRIORITY] = append(rule{{[]check{equal(0, unix.PRIO_USER)}, attack(unix.EPERM)}}, ownOnly(1)...)
		t[unix.SYS_IOPRIO_SET] = append(rule{{[]check{equal(0, ioprioUser)}, attack(unix.EPERM)}}, ownOnly(1)...)
	}
	return t
}

func (t Table) put(numbers []int, v verdict) {
	for _, nr := range numbers {
		t[nr] = rule{otherwise(v)}
	}
}

// Ordinary reports whether a reported call is a refusal and not a violation.
func (t Table) Ordinary(nr int, args [6]uint64) bool { return t.decide(nr, args).ordinary }

// Errno returns the filter's errno for a call, 0 if it passes. It does not cover calls that kill
// the process: those of a foreign architecture and numbers of the x32 table.
func (t Table) Errno(nr int, args [6]uint64) unix.Errno {
	return t.decide(nr, args).errno
}

func (t Table) decide(nr int, args [6]uint64) verdict {
	if r, ok := t[nr]; ok {
		return r.decide(args)
	}
	return unknown()
}

// newNamespaces is every CLONE_NEW* flag that clone(2) accepts. CLONE_NEWTIME shares its bit with
// the exit signal and requires clone3 or unshare.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// privileged are the mode bits that would outlive the sandbox: in a workspace owned by root, a
// set-user-ID file would give root privileges.
const privileged = unix.S_ISUID | unix.S_ISGID

// commonRules returns the rules for calls whose arguments are checked. A filter cannot read
// pointer arguments, so clone3 and openat2, whose flags are behind a pointer, get ENOSYS. Every
// C library then falls back to clone and openat.
func commonRules() map[int]rule {
	return map[int]rule{
		unix.SYS_CLONE:          {{[]check{anyBit(0, newNamespaces)}, attack(unix.EPERM)}, otherwise(verdict{})},
		unix.SYS_CLONE3:         {otherwise(unknown())},
		unix.SYS_OPENAT2:        {otherwise(unknown())},
		unix.SYS_SOCKET:         socket(verdict{}),
		unix.SYS_SOCKETPAIR:     socketpair(),
		unix.SYS_IOCTL:          ioctl(),
		unix.SYS_FALLOCATE:      fallocate(),
		unix.SYS_FCNTL:          fcntl(),
		unix.SYS_IO_SETUP:       {otherwise(refusal(unix.ENOSYS))},
		unix.SYS_IO_URING_SETUP: {otherwise(refusal(unix.ENOSYS))},
		unix.SYS_PERSONALITY:    personality(),
		unix.SYS_SECCOMP:        stacked(),
		unix.SYS_OPENAT:         fileMode(2, 3),
		unix.SYS_MKDIRAT:        modeOnly(2),
		unix.SYS_FCHMOD:         modeOnly(1),
		unix.SYS_FCHMODAT:       modeOnly(2),
		unix.SYS_FCHMODAT2:      modeOnly(2),
		unix.SYS_MKNODAT:        nodeMode(2),
	}
}

// attack denies a call that no ordinary program makes.
func attack(e unix.Errno) verdict { return verdict{errno: e, report: true} }

// refusal denies a call that ordinary programs make, and without which they may fail. Calls that C
// libraries and runtimes make often and can do without are denied without a report, because a
// report takes some microseconds.
func refusal(e unix.Errno) verdict { return verdict{errno: e, report: true, ordinary: true} }

func otherwise(v verdict) clause { return clause{then: v} }

// ioctl denies writing characters into a terminal's input (CVE-2017-5226) and taking over a
// terminal. It also denies the requests that every file system accepts in place of fallocate.
func ioctl() rule {
	var r rule
	for _, request := range []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSCTTY} {
		r = append(r, clause{[]check{equal(1, request)}, attack(unix.EPERM)})
	}
	// FS_IOC_RESVSP, FS_IOC_RESVSP64 and FS_IOC_ZERO_RANGE of <linux/falloc.h>.
	for _, request := range []uint32{0x40305828, 0x4030582a, 0x40305839} {
		r = append(r, clause{[]check{equal(1, request)}, refusal(unix.EOPNOTSUPP)})
	}
	return append(r, otherwise(verdict{}))
}

// fallocate allows the modes that allocate no blocks. The others fill a disk within one call,
// faster than a run's disk usage is measured. They get the errno of a file system that does not
// support them, on which posix_fallocate of glibc writes instead.
func fallocate() rule {
	var r rule
	for _, mode := range []uint32{unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE, unix.FALLOC_FL_COLLAPSE_RANGE, unix.FALLOC_FL_INSERT_RANGE} {
		r = append(r, clause{[]check{equal(1, mode)}, verdict{}})
	}
	return append(r, otherwise(refusal(unix.EOPNOTSUPP)))
}

// fcntl denies pipes larger than 64 KiB, the default. Larger pipes count against a limit that the
// run shares with all other programs of its user (fs.pipe-user-pages-soft). The kernel answers
// EPERM above that limit, so programs handle it.
func fcntl() rule {
	const most = 64 << 10
	larger := func(checks ...check) clause {
		return clause{append([]check{equal(1, unix.F_SETPIPE_SZ)}, checks...), refusal(unix.EPERM)}
	}
	return rule{
		larger(anyBit(2, ^uint32(2*most-1))),
		larger(anyBit(2, most), anyBit(2, most-1)),
		otherwise(verdict{}),
	}
}

// personality allows setting the default personality and querying the current one. Other
// personalities make data executable or addresses predictable.
func personality() rule {
	return rule{
		{[]check{equal(0, 0)}, verdict{}},
		{[]check{equal(0, 0xffffffff)}, verdict{}},
		otherwise(attack(unix.EPERM)),
	}
}

// stacked allows the program to install further filters, which can only deny more. It denies a
// filter with its own notifier. If two filters use notifiers, the kernel asks the notifier of
// the newer filter, which could answer SECCOMP_USER_NOTIF_FLAG_CONTINUE.
func stacked() rule {
	return rule{
		{[]check{anyBit(1, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)}, attack(unix.EBUSY)},
		otherwise(verdict{}),
	}
}

// ownOnly requires argument i to be 0, which names the caller.
func ownOnly(i int) rule {
	return rule{{[]check{equal(i, 0)}, verdict{}}, otherwise(attack(unix.EPERM))}
}

// modeOnly denies privileged bits in the mode in argument i.
func modeOnly(i int) rule {
	return rule{{[]check{anyBit(i, privileged)}, attack(unix.EPERM)}, otherwise(verdict{})}
}

// fileMode is modeOnly for calls that read the mode only when they create a file.
func fileMode(flags, mode int) rule {
	const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY
	return rule{
		{[]check{anyBit(flags, unix.O_CREAT|tmpfile), anyBit(mode, privileged)}, attack(unix.EPERM)},
		otherwise(verdict{}),
	}
}

// nodeMode is like modeOnly, but also denies devices.
func nodeMode(i int) rule {
	kind := func(format uint32) check { return check{arg: i, mask: unix.S_IFMT, want: format} }
	return append(rule{
		{[]check{kind(unix.S_IFCHR)}, attack(unix.EPERM)},
		{[]check{kind(unix.S_IFBLK)}, attack(unix.EPERM)},
	}, modeOnly(i)...)
}

// kindOf checks the type of a socket without SOCK_CLOEXEC and SOCK_NONBLOCK.
func kindOf(kind uint32) check { return check{arg: 1, mask: 0xf, want: kind} }

// socket gives TCP and UDP over IP the verdict ip. All other sockets get EAFNOSUPPORT, as if
// the kernel did not support them. Attempts are reported, except for sockets that harmless
// programs open regularly. Programs open TCP and UDP sockets before they need them. The C
// library lists the interfaces by netlink. Go tries MPTCP first. Unix sockets are refusals: the C
// library contacts nscd and syslog by them.
func socket(ip verdict) rule {
	var r rule
	for _, family := range []uint32{unix.AF_INET, unix.AF_INET6} {
		for _, s := range []struct {
			kind, protocol uint32
			then           verdict
		}{
			{unix.SOCK_STREAM, 0, ip},
			{unix.SOCK_STREAM, unix.IPPROTO_TCP, ip},
			{unix.SOCK_DGRAM, 0, ip},
			{unix.SOCK_DGRAM, unix.IPPROTO_UDP, ip},
			{unix.SOCK_STREAM, unix.IPPROTO_MPTCP, verdict{errno: unix.EAFNOSUPPORT}},
		} {
			r = append(r, clause{[]check{equal(0, family), kindOf(s.kind), equal(2, s.protocol)}, s.then})
		}
	}
	return append(r,
		clause{[]check{equal(0, unix.AF_UNIX), kindOf(unix.SOCK_STREAM)}, refusal(unix.EAFNOSUPPORT)},
		clause{[]check{equal(0, unix.AF_UNIX), kindOf(unix.SOCK_DGRAM)}, refusal(unix.EAFNOSUPPORT)},
		clause{[]check{equal(0, unix.AF_NETLINK), equal(2, unix.NETLINK_ROUTE)}, verdict{errno: unix.EAFNOSUPPORT}},
		otherwise(attack(unix.EAFNOSUPPORT)),
	)
}

// localSockets allows the types of Unix sockets.
func localSockets() rule {
	var r rule
	for _, kind := range []uint32{unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_SEQPACKET} {
		r = append(r, clause{[]check{equal(0, unix.AF_UNIX), kindOf(kind)}, verdict{}})
	}
	return r
}

// socketpair allows pairs of unix sockets that stay connected to each other: streams, and sequences
// of packets, which cargo and rustc use. A datagram socket of a pair can be reconnected to another
// address.
func socketpair() rule {
	return rule{
		{[]check{equal(0, unix.AF_UNIX), kindOf(unix.SOCK_STREAM)}, verdict{}},
		{[]check{equal(0, unix.AF_UNIX), kindOf(unix.SOCK_SEQPACKET)}, verdict{}},
		otherwise(attack(unix.EAFNOSUPPORT)),
	}
}
