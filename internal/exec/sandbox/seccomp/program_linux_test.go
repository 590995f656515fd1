//go:build linux && (amd64 || arm64)

package seccomp

import (
	"encoding/binary"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

const (
	eperm = retErrno | uint32(unix.EPERM)
	nosys = retErrno | uint32(unix.ENOSYS)
	busy  = retErrno | uint32(unix.EBUSY)
	noaf  = retErrno | uint32(unix.EAFNOSUPPORT)
	nosup = retErrno | uint32(unix.EOPNOTSUPP)
)

// call is one system call as in struct seccomp_data.
type call struct {
	nr   int
	arch uint32
	args [6]uint64
}

// packet encodes a call for bpf.VM, which loads words big-endian where the kernel uses the
// machine's order.
func (c call) packet() []byte {
	p := make([]byte, 64)
	binary.BigEndian.PutUint32(p[offNumber:], uint32(c.nr))
	binary.BigEndian.PutUint32(p[offArch:], c.arch)
	for i, arg := range c.args {
		binary.BigEndian.PutUint32(p[offArgs+8*i:], uint32(arg))
		binary.BigEndian.PutUint32(p[offArgs+8*i+4:], uint32(arg>>32))
	}
	return p
}

func newVM(t testing.TB, o Options) *bpf.VM {
	t.Helper()
	raw := must.Get(Program(o))(t)
	return machine(t, raw)
}

// machine returns a VM that runs a program like the kernel, except for the byte order.
func machine(t testing.TB, raw []bpf.RawInstruction) *bpf.VM {
	t.Helper()
	code, ok := bpf.Disassemble(raw)
	if !ok {
		t.Fatal("the program does not disassemble")
	}
	return must.Get(bpf.NewVM(code))(t)
}

func answer(t testing.TB, vm *bpf.VM, c call) uint32 {
	t.Helper()
	n := must.Get(vm.Run(c.packet()))(t)
	return uint32(n)
}

func args(a ...uint64) (out [6]uint64) {
	copy(out[:], a)
	return out
}

func TestArguments(t *testing.T) {
	t.Parallel()
	vm := newVM(t, Options{})
	const high = 1 << 32
	for _, c := range []struct {
		name string
		nr   int
		args [6]uint64
		want uint32
	}{
		{"read", unix.SYS_READ, args(), retAllow},
		{"execve", unix.SYS_EXECVE, args(), retAllow},
		{"mount", unix.SYS_MOUNT, args(), eperm},
		{"unshare", unix.SYS_UNSHARE, args(), eperm},
		{"setns", unix.SYS_SETNS, args(), eperm},
		{"ptrace", unix.SYS_PTRACE, args(), eperm},
		{"bpf", unix.SYS_BPF, args(), eperm},
		{"keyctl", unix.SYS_KEYCTL, args(), eperm},
		{"userfaultfd", unix.SYS_USERFAULTFD, args(), eperm},
		{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, args(), eperm},
		{"pidfd_getfd", unix.SYS_PIDFD_GETFD, args(), eperm},
		{"io_uring_setup", unix.SYS_IO_URING_SETUP, args(), nosys},
		{"clone3", unix.SYS_CLONE3, args(), nosys},
		{"openat2", unix.SYS_OPENAT2, args(), nosys},
		{"of the future", 5000, args(), nosys},
		{"clone of a thread", unix.SYS_CLONE, args(unix.CLONE_VM | unix.CLONE_THREAD | unix.CLONE_SIGHAND), retAllow},
		{"clone with SIGCHLD", unix.SYS_CLONE, args(uint64(unix.SIGCHLD)), retAllow},
		{"clone of a user namespace", unix.SYS_CLONE, args(unix.CLONE_NEWUSER | uint64(unix.SIGCHLD)), eperm},
		{"clone of a net namespace, high bits", unix.SYS_CLONE, args(high | unix.CLONE_NEWNET), eperm},
		{"tcp", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0), retAllow},
		{"tcp6", unix.SYS_SOCKET, args(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP), retAllow},
		{"udp", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP), retAllow},
		{"mptcp", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), noaf},
		{"icmp", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP), noaf},
		{"sctp", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_SEQPACKET, 0), noaf},
		{"raw", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW), noaf},
		{"tcp over datagrams", unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_TCP), noaf},
		{"unix", unix.SYS_SOCKET, args(unix.AF_UNIX, unix.SOCK_STREAM, 0), noaf},
		{"unix with high bits", unix.SYS_SOCKET, args(high|unix.AF_UNIX, unix.SOCK_STREAM, 0), noaf},
		{"netlink", unix.SYS_SOCKET, args(unix.AF_NETLINK, unix.SOCK_RAW, 0), noaf},
		{"packet", unix.SYS_SOCKET, args(unix.AF_PACKET, unix.SOCK_RAW, 0), noaf},
		{"vsock", unix.SYS_SOCKET, args(unix.AF_VSOCK, unix.SOCK_STREAM, 0), noaf},
		{"alg", unix.SYS_SOCKET, args(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), noaf},
		{"stream pair", unix.SYS_SOCKETPAIR, args(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0), retAllow},
		{"pair of packets", unix.SYS_SOCKETPAIR, args(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0), retAllow},
		{"a socket of packets", unix.SYS_SOCKET, args(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0), noaf},
		{"datagram pair", unix.SYS_SOCKETPAIR, args(unix.AF_UNIX, unix.SOCK_DGRAM, 0), noaf},
		{"pair of another family", unix.SYS_SOCKETPAIR, args(unix.AF_INET, unix.SOCK_STREAM, 0), noaf},
		{"TCGETS", unix.SYS_IOCTL, args(0, unix.TCGETS), retAllow},
		{"TIOCSTI", unix.SYS_IOCTL, args(0, unix.TIOCSTI), eperm},
		{"TIOCSTI with high bits", unix.SYS_IOCTL, args(0, high|unix.TIOCSTI), eperm},
		{"TIOCLINUX", unix.SYS_IOCTL, args(0, unix.TIOCLINUX), eperm},
		{"TIOCSCTTY with high bits", unix.SYS_IOCTL, args(0, 1<<63|unix.TIOCSCTTY), eperm},
		{"FS_IOC_RESVSP", unix.SYS_IOCTL, args(3, 0x40305828), nosup},
		{"FS_IOC_RESVSP64 with high bits", unix.SYS_IOCTL, args(3, high|0x4030582a), nosup},
		{"FS_IOC_UNRESVSP64", unix.SYS_IOCTL, args(3, 0x4030582b), retAllow},
		{"FS_IOC_ZERO_RANGE", unix.SYS_IOCTL, args(3, 0x40305839), nosup},
		{"fallocate", unix.SYS_FALLOCATE, args(3, 0, 0, 1<<40), nosup},
		{"fallocate with high bits", unix.SYS_FALLOCATE, args(3, high, 0, 1<<40), nosup},
		{"fallocate beyond the end", unix.SYS_FALLOCATE, args(3, unix.FALLOC_FL_KEEP_SIZE), nosup},
		{"fallocate of zeros", unix.SYS_FALLOCATE, args(3, unix.FALLOC_FL_ZERO_RANGE|unix.FALLOC_FL_KEEP_SIZE), nosup},
		{"fallocate of written zeros", unix.SYS_FALLOCATE, args(3, unix.FALLOC_FL_WRITE_ZEROES), nosup},
		{"fallocate of a separate copy", unix.SYS_FALLOCATE, args(3, unix.FALLOC_FL_UNSHARE_RANGE), nosup},
		{"a hole", unix.SYS_FALLOCATE, args(3, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE), retAllow},
		{"a removed range", unix.SYS_FALLOCATE, args(3, unix.FALLOC_FL_COLLAPSE_RANGE), retAllow},
		{"an inserted hole", unix.SYS_FALLOCATE, args(3, unix.FALLOC_FL_INSERT_RANGE), retAllow},
		{"a pipe of 64 KiB", unix.SYS_FCNTL, args(3, unix.F_SETPIPE_SZ, 64<<10), retAllow},
		{"a pipe of 64 KiB, high bits", unix.SYS_FCNTL, args(3, high|unix.F_SETPIPE_SZ, high|64<<10), retAllow},
		{"a pipe of 64 KiB and a byte", unix.SYS_FCNTL, args(3, unix.F_SETPIPE_SZ, 64<<10+1), eperm},
		{"a pipe of 128 KiB", unix.SYS_FCNTL, args(3, high|unix.F_SETPIPE_SZ, 128<<10), eperm},
		{"a pipe of 2 GiB", unix.SYS_FCNTL, args(3, unix.F_SETPIPE_SZ, 1<<31), eperm},
		{"another fcntl", unix.SYS_FCNTL, args(3, unix.F_SETLEASE, 1<<31), retAllow},
		{"io_setup", unix.SYS_IO_SETUP, args(1), nosys},
		{"personality 0", unix.SYS_PERSONALITY, args(0), retAllow},
		{"personality query", unix.SYS_PERSONALITY, args(0xffffffff), retAllow},
		{"READ_IMPLIES_EXEC", unix.SYS_PERSONALITY, args(0x0400000), eperm},
		{"fchmod", unix.SYS_FCHMOD, args(3, 0o755), retAllow},
		{"fchmod setuid", unix.SYS_FCHMOD, args(3, 0o4755), eperm},
		{"fchmodat setgid", unix.SYS_FCHMODAT, args(0, 0, 0o2755), eperm},
		{"fchmodat2 setuid", unix.SYS_FCHMODAT2, args(0, 0, 0o4000), eperm},
		{"openat for reading, stale mode", unix.SYS_OPENAT, args(0, 0, unix.O_RDONLY, 0o7777), retAllow},
		{"openat of a directory, stale mode", unix.SYS_OPENAT, args(0, 0, unix.O_DIRECTORY, 0o7777), retAllow},
		{"openat create", unix.SYS_OPENAT, args(0, 0, unix.O_CREAT|unix.O_WRONLY, 0o644), retAllow},
		{"openat create setuid", unix.SYS_OPENAT, args(0, 0, unix.O_CREAT|unix.O_WRONLY, 0o4755), eperm},
		{"openat tmpfile setuid", unix.SYS_OPENAT, args(0, 0, unix.O_TMPFILE|unix.O_RDWR, 0o4755), eperm},
		{"mknodat fifo", unix.SYS_MKNODAT, args(0, 0, unix.S_IFIFO|0o644), retAllow},
		{"mknodat file", unix.SYS_MKNODAT, args(0, 0, unix.S_IFREG|0o644), retAllow},
		{"mknodat setuid file", unix.SYS_MKNODAT, args(0, 0, unix.S_IFREG|0o4755), eperm},
		{"mknodat block device", unix.SYS_MKNODAT, args(0, 0, unix.S_IFBLK|0o644), eperm},
		{"mkdirat setgid", unix.SYS_MKDIRAT, args(0, 0, 0o2755), eperm},
		{"fchmod setuid with high bits", unix.SYS_FCHMOD, args(3, high|0o4755), eperm},
		{"a further filter", unix.SYS_SECCOMP, args(unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC), retAllow},
		{"a further filter with a notifier", unix.SYS_SECCOMP, args(unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER), busy},
		{"execveat of a descriptor", unix.SYS_EXECVEAT, args(3, 0, 0, 0, unix.AT_EMPTY_PATH), retAllow},
		{"memfd_create", unix.SYS_MEMFD_CREATE, args(0, 0), retAllow},
		{"mknodat character device", unix.SYS_MKNODAT, args(0, 0, unix.S_IFCHR|0o644), eperm},
	} {
		if got := answer(t, vm, call{c.nr, auditArch, c.args}); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		o    Options
		nr   int
		args [6]uint64
		want uint32
	}{
		{"fileless execveat", Options{StrictExec: true}, unix.SYS_EXECVEAT, args(3, 0, 0, 0, unix.AT_EMPTY_PATH), eperm},
		{"fileless execveat, other flags, high bits", Options{StrictExec: true}, unix.SYS_EXECVEAT, args(3, 0, 0, 0, 1<<40|unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW), eperm},
		{"execveat by name", Options{StrictExec: true}, unix.SYS_EXECVEAT, args(3, 1, 0, 0, 0), retAllow},
		{"a memory file that can be run", Options{StrictExec: true}, unix.SYS_MEMFD_CREATE, args(1, unix.MFD_CLOEXEC), eperm},
		{"a memory file that cannot be run", Options{StrictExec: true}, unix.SYS_MEMFD_CREATE, args(1, unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL), retAllow},
		{"no tcp", Options{NoNetwork: true}, unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_STREAM, 0), noaf},
		{"no udp6", Options{NoNetwork: true}, unix.SYS_SOCKET, args(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.IPPROTO_UDP), noaf},
		{"no tcp is not reported", Options{NoNetwork: true, Watch: true}, unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_STREAM, 0), noaf},
		{"no raw, reported", Options{NoNetwork: true, Watch: true}, unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_RAW, 0), retNotify},
		{"no shared memory", Options{NoIPC: true}, unix.SYS_SHMAT, args(), nosys},
		{"no queues", Options{NoIPC: true}, unix.SYS_MQ_OPEN, args(), nosys},
		{"own limits", Options{NoProcesses: true}, unix.SYS_PRLIMIT64, args(0, unix.RLIMIT_NOFILE), retAllow},
		{"limits of another", Options{NoProcesses: true}, unix.SYS_PRLIMIT64, args(1, unix.RLIMIT_NOFILE), eperm},
		{"own priority", Options{NoProcesses: true}, unix.SYS_SETPRIORITY, args(unix.PRIO_PROCESS, 0, 19), retAllow},
		{"priority of a user's processes", Options{NoProcesses: true}, unix.SYS_SETPRIORITY, args(unix.PRIO_USER, 1000, 19), eperm},
		{"priority of all processes of this user", Options{NoProcesses: true}, unix.SYS_SETPRIORITY, args(unix.PRIO_USER, 0, 19), eperm},
		{"processors of its own", Options{NoProcesses: true}, unix.SYS_SCHED_SETAFFINITY, args(0, 8), retAllow},
		{"processors of another", Options{NoProcesses: true}, unix.SYS_SCHED_SETAFFINITY, args(1, 8), eperm},
		{"policy of another", Options{NoProcesses: true}, unix.SYS_SCHED_SETSCHEDULER, args(1, 5), eperm},
		{"input and output of all processes of this user", Options{NoProcesses: true}, unix.SYS_IOPRIO_SET, args(3, 0), eperm},
		{"priority of another's input and output", Options{NoProcesses: true}, unix.SYS_IOPRIO_SET, args(1, 7), eperm},
		{"mount, reported", Options{Watch: true}, unix.SYS_MOUNT, args(), retNotify},
		{"tiocsti, reported", Options{Watch: true}, unix.SYS_IOCTL, args(0, unix.TIOCSTI), retNotify},
		{"setuid, reported", Options{Watch: true}, unix.SYS_FCHMODAT, args(0, 0, 0o4755), retNotify},
		{"clone3, not reported", Options{Watch: true}, unix.SYS_CLONE3, args(), nosys},
		{"nscd, reported", Options{Watch: true}, unix.SYS_SOCKET, args(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0), retNotify},
		{"syslog, reported", Options{Watch: true}, unix.SYS_SOCKET, args(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0), retNotify},
		{"fallocate, reported", Options{Watch: true}, unix.SYS_FALLOCATE, args(3, 0), retNotify},
		{"io_setup, reported", Options{Watch: true}, unix.SYS_IO_SETUP, args(1), retNotify},
		{"an unknown call, not reported", Options{Watch: true}, 5000, args(), nosys},
		{"getifaddrs, not reported", Options{Watch: true}, unix.SYS_SOCKET, args(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE), noaf},
		{"mptcp, not reported", Options{Watch: true}, unix.SYS_SOCKET, args(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), noaf},
		{"audit, reported", Options{Watch: true}, unix.SYS_SOCKET, args(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), retNotify},
		{"packet, reported", Options{Watch: true}, unix.SYS_SOCKET, args(unix.AF_PACKET, unix.SOCK_RAW, 0), retNotify},
		{"memory policies, not reported", Options{Watch: true}, unix.SYS_GET_MEMPOLICY, args(), eperm},
	} {
		if got := answer(t, newVM(t, c.o), call{c.nr, auditArch, c.args}); got != c.want {
			t.Errorf("%s: %#x, want %#x", c.name, got, c.want)
		}
	}
}

func TestForeignArchitectures(t *testing.T) {
	t.Parallel()
	raw := must.Get(Outer())(t)
	outer := machine(t, raw)
	const i386, arm = 0x40000003, 0x40000028
	for _, vm := range []*bpf.VM{newVM(t, Options{}), newVM(t, Options{Watch: true}), outer} {
		for _, c := range []call{
			{nr: unix.SYS_READ, arch: i386}, {nr: unix.SYS_READ, arch: arm}, {nr: unix.SYS_READ},
			{nr: unix.SYS_READ | compatBit, arch: auditArch}, {nr: -1, arch: auditArch},
		} {
			if got := answer(t, vm, c); got != retKill {
				t.Errorf("nr %#x of %#x: %#x, want the process killed", c.nr, c.arch, got)
			}
		}
	}
	for nr := range calls {
		if got := answer(t, outer, call{nr: nr, arch: auditArch}); got != retAllow {
			t.Errorf("the outer filter answers call %d with %#x", nr, got)
		}
	}
}

// calls is larger than every system call number in use.
const calls = 600

// Every number has the answer that the lists define, for any shape of the binary search.
func TestSearchAgreesWithLists(t *testing.T) {
	t.Parallel()
	vm := newVM(t, Options{})
	want := map[int]uint32{}
	for _, list := range []struct {
		numbers []int
		answer  uint32
	}{{denied(), eperm}, {harmless(), eperm}, {allowed(), retAllow}} {
		for _, nr := range list.numbers {
			if want[nr] != 0 {
				t.Errorf("call %d is in the lists twice", nr)
			}
			want[nr] = list.answer
		}
	}
	judged := map[int]bool{}
	for _, rules := range []map[int]rule{commonRules(), legacyRules()} {
		for nr := range rules {
			judged[nr] = true
			if want[nr] != 0 {
				t.Errorf("call %d is in a list and has a rule", nr)
			}
		}
	}
	for nr := range 2000 {
		expected, ok := want[nr]
		if !ok {
			expected = nosys
		}
		if got := answer(t, vm, call{nr: nr, arch: auditArch}); got != expected && !judged[nr] {
			t.Errorf("call %d: %#x, want %#x", nr, got, expected)
		}
	}
}

func TestBytes(t *testing.T) {
	t.Parallel()
	got := Bytes([]bpf.RawInstruction{{Op: 0x0620, Jt: 1, Jf: 2, K: 0x7fff0001}})
	want := []byte{0x20, 0x06, 1, 2, 0x01, 0x00, 0xff, 0x7f}
	if string(got) != string(want) {
		t.Errorf("got % x, want % x", got, want)
	}
}
