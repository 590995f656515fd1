//go:build linux && (amd64 || arm64)

package seccomp

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data of <linux/seccomp.h>, little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// What a filter answers (SECCOMP_RET_* of <linux/seccomp.h>).
const (
	retAllow = 0x7fff0000
	retKill  = 0x80000000
	retErrno = 0x00050000
)

// newNamespaces is every CLONE_NEW* flag that clone(2) takes. CLONE_NEWTIME
// shares its bit with the exit signal and needs clone3 or unshare.
const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// privileged are the mode bits that would outlive the sandbox: in a workspace
// that root owns, a set-user-ID file is a way to root.
const privileged = unix.S_ISUID | unix.S_ISGID

// rule is the code for one system call; it ends in returns on every path.
type rule []bpf.Instruction

// span is a range of numbers that get the same answer.
type span struct {
	from int
	code rule
}

// Program returns the filter for the architecture of this build.
//
// Unknown calls get ENOSYS, known dangerous ones EPERM, calls of a foreign
// architecture or of the x32 table kill the process. Pointer arguments cannot
// be seen by a filter, so clone3 and openat2, whose flags are behind one, get
// ENOSYS, on which callers fall back to clone and openat.
func Program() ([]bpf.RawInstruction, error) {
	rules := legacyRules()
	for nr, r := range commonRules() {
		rules[nr] = r
	}
	for _, nr := range denied() {
		rules[nr] = errno(unix.EPERM)
	}
	for _, nr := range allowed() {
		rules[nr] = allow()
	}
	code := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: compatBit, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
	}
	code = append(code, search(spans(rules))...)
	raw, err := bpf.Assemble(code)
	if err != nil {
		return nil, fmt.Errorf("assembling the seccomp program: %w", err)
	}
	const most = 4096 // BPF_MAXINSNS
	if len(raw) > most {
		return nil, fmt.Errorf("assembling the seccomp program: %d instructions, the kernel takes %d", len(raw), most)
	}
	return raw, nil
}

// commonRules are the calls whose arguments decide.
func commonRules() map[int]rule {
	return map[int]rule{
		unix.SYS_CLONE:       unlessBits(0, newNamespaces, unix.EPERM),
		unix.SYS_CLONE3:      errno(unix.ENOSYS),
		unix.SYS_OPENAT2:     errno(unix.ENOSYS),
		unix.SYS_SOCKET:      socket(),
		unix.SYS_SOCKETPAIR:  socketpair(),
		unix.SYS_IOCTL:       unlessOneOf(1, []uint32{unix.TIOCSTI, unix.TIOCLINUX, unix.TIOCSCTTY}, unix.EPERM),
		unix.SYS_PERSONALITY: onlyOneOf(0, []uint32{0, 0xffffffff}, unix.EPERM),
		unix.SYS_OPENAT:      fileMode(2, 3),
		unix.SYS_FCHMOD:      modeOnly(1),
		unix.SYS_FCHMODAT:    modeOnly(2),
		unix.SYS_FCHMODAT2:   modeOnly(2),
		unix.SYS_MKNODAT:     nodeMode(2),
	}
}

// spans turns the table into ranges that cover every number.
func spans(rules map[int]rule) []span {
	numbers := make([]int, 0, len(rules))
	for nr := range rules {
		numbers = append(numbers, nr)
	}
	slices.SortFunc(numbers, cmp.Compare[int])
	var out []span
	next := 0
	for _, nr := range numbers {
		if nr > next {
			out = add(out, span{next, errno(unix.ENOSYS)})
		}
		out = add(out, span{nr, rules[nr]})
		next = nr + 1
	}
	return add(out, span{next, errno(unix.ENOSYS)})
}

// add appends s, or widens the last span when it answers the same.
func add(list []span, s span) []span {
	if n := len(list); n > 0 && slices.Equal(list[n-1].code, s.code) {
		return list
	}
	return append(list, s)
}

// search emits a binary search over the ranges; the number is in A.
func search(list []span) []bpf.Instruction {
	if len(list) == 1 {
		return list[0].code
	}
	middle := len(list) / 2
	low, high := search(list[:middle]), search(list[middle:])
	pivot := uint32(list[middle].from)
	var code []bpf.Instruction
	if len(low) <= 255 {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: pivot, SkipTrue: uint8(len(low))})
	} else {
		// A conditional skip has eight bits, a plain one has thirty-two.
		code = append(code,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: pivot, SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(low))})
	}
	return append(append(code, low...), high...)
}

// fits copies code whose relative skips are known by construction.
func fits(code ...bpf.Instruction) rule { return code }

func allow() rule { return fits(bpf.RetConstant{Val: retAllow}) }

func errno(e unix.Errno) rule { return fits(bpf.RetConstant{Val: retErrno | uint32(e)}) }

// argument loads the low 32 bits of argument i. The kernel itself looks at
// these alone for every argument that is judged here, so that setting high
// bits hides nothing (CVE-2019-10063).
func argument(i int) bpf.Instruction {
	return bpf.LoadAbsolute{Off: uint32(offArgs + 8*i), Size: 4}
}

func unlessBits(i int, bits uint32, e unix.Errno) rule {
	return fits(
		argument(i),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
		bpf.RetConstant{Val: retErrno | uint32(e)},
	)
}

func unlessOneOf(i int, values []uint32, e unix.Errno) rule {
	return oneOf(i, values, retErrno|uint32(e), retAllow)
}

func onlyOneOf(i int, values []uint32, e unix.Errno) rule {
	return oneOf(i, values, retAllow, retErrno|uint32(e))
}

func oneOf(i int, values []uint32, match, miss uint32) rule {
	code := fits(argument(i))
	for n, value := range values {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpEqual, Val: value, SkipTrue: uint8(len(values) - n)})
	}
	return append(code, bpf.RetConstant{Val: miss}, bpf.RetConstant{Val: match})
}

// modeOnly refuses a mode argument with set-user-ID or set-group-ID.
func modeOnly(i int) rule { return unlessBits(i, privileged, unix.EPERM) }

// fileMode is modeOnly for calls that look at the mode only when they create.
func fileMode(flags, mode int) rule {
	const tmpfile = unix.O_TMPFILE &^ unix.O_DIRECTORY
	code := fits(
		argument(flags),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.O_CREAT | tmpfile, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
	)
	return append(code, modeOnly(mode)...)
}

// nodeMode is modeOnly that refuses devices too.
func nodeMode(i int) rule {
	code := fits(
		argument(i),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: unix.S_IFMT},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.S_IFCHR, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.S_IFBLK, SkipTrue: 1},
		bpf.RetConstant{Val: retErrno | uint32(unix.EPERM)},
	)
	return append(code, modeOnly(i)...)
}

// socket allows TCP and UDP over IP. Everything else (unix, netlink, raw,
// packet, vsock, SCTP, MPTCP) looks as if the kernel did not have it.
func socket() rule {
	const no = retErrno | uint32(unix.EAFNOSUPPORT)
	return fits(
		argument(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.AF_INET6, SkipTrue: 1},
		bpf.RetConstant{Val: no},
		argument(1),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf}, // without SOCK_CLOEXEC and SOCK_NONBLOCK
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_STREAM, SkipTrue: 2},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.SOCK_DGRAM, SkipTrue: 5},
		bpf.RetConstant{Val: no},
		argument(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 5},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: unix.IPPROTO_TCP, SkipTrue: 4},
		bpf.RetConstant{Val: no},
		argument(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.IPPROTO_UDP, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
		bpf.RetConstant{Val: no},
	)
}

// socketpair allows stream pairs of unix sockets. A datagram socket of a pair
// can be connected again to another address.
func socketpair() rule {
	const no = retErrno | uint32(unix.EAFNOSUPPORT)
	return fits(
		argument(0),
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.AF_UNIX, SkipTrue: 4},
		argument(1),
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf},
		bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: unix.SOCK_STREAM, SkipTrue: 1},
		bpf.RetConstant{Val: retAllow},
		bpf.RetConstant{Val: no},
	)
}

// Bytes is the program as an array of struct sock_filter.
func Bytes(program []bpf.RawInstruction) []byte {
	out := make([]byte, 0, 8*len(program))
	for _, i := range program {
		out = append(out, byte(i.Op), byte(i.Op>>8), i.Jt, i.Jf, byte(i.K), byte(i.K>>8), byte(i.K>>16), byte(i.K>>24))
	}
	return out
}
