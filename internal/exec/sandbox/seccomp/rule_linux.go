//go:build linux && (amd64 || arm64)

package seccomp

import (
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// verdict is the result of one call: an errno, or 0 to let the kernel run it.
type verdict struct {
	errno unix.Errno
	// report marks a call that a watching filter passes to the notifier, which answers with the
	// same errno.
	report bool
	// ordinary marks a reported call that ordinary programs make too. It is a refusal, and not a
	// violation.
	ordinary bool
}

// rule decides on one system call: the first clause whose checks all match applies. The last
// clause has no checks.
type rule []clause

type clause struct {
	when []check
	then verdict
}

// check inspects the low 32 bits of one argument. The kernel ignores the high 32 bits of every
// argument that is checked here, so a filter that compared all 64 bits could be bypassed by
// setting a high bit (CVE-2019-10063).
type check struct {
	arg  int
	mask uint32
	// bits matches any bit of the mask; otherwise the bits of the mask must equal want.
	bits bool
	want uint32
}

func (c check) holds(args [6]uint64) bool {
	value := uint32(args[c.arg]) & c.mask
	if c.bits {
		return value != 0
	}
	return value == c.want
}

func (r rule) decide(args [6]uint64) verdict {
	for _, c := range r {
		if c.holds(args) {
			return c.then
		}
	}
	return unknown()
}

func (c clause) holds(args [6]uint64) bool {
	for _, check := range c.when {
		if !check.holds(args) {
			return false
		}
	}
	return true
}

// unknown is the verdict on unlisted calls.
func unknown() verdict { return verdict{errno: unix.ENOSYS} }

const all = ^uint32(0)

func equal(arg int, want uint32) check { return check{arg: arg, mask: all, want: want} }

func anyBit(arg int, mask uint32) check { return check{arg: arg, mask: mask, bits: true} }

// code returns instructions that end in a return on every path.
func (r rule) code(watch bool) []bpf.Instruction {
	var code []bpf.Instruction
	for _, c := range r {
		code = append(code, c.code(watch)...)
	}
	if n := len(r); n == 0 || len(r[n-1].when) > 0 {
		code = append(code, unknown().code(watch))
	}
	return code
}

// code builds the instructions from the end, because a check that does not match skips the
// rest.
func (c clause) code(watch bool) []bpf.Instruction {
	code := []bpf.Instruction{c.then.code(watch)}
	for i := len(c.when) - 1; i >= 0; i-- {
		code = append(c.when[i].code(uint8(len(code))), code...)
	}
	return code
}

func (c check) code(skip uint8) []bpf.Instruction {
	load := bpf.LoadAbsolute{Off: uint32(offArgs + 8*c.arg), Size: 4}
	switch {
	case c.bits:
		return []bpf.Instruction{load, bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: c.mask, SkipFalse: skip}}
	case c.mask == all:
		return []bpf.Instruction{load, bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.want, SkipFalse: skip}}
	}
	return []bpf.Instruction{
		load,
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: c.mask},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.want, SkipFalse: skip},
	}
}

func (v verdict) code(watch bool) bpf.Instruction {
	switch {
	case v.errno == 0:
		return bpf.RetConstant{Val: retAllow}
	case v.report && watch:
		return bpf.RetConstant{Val: retNotify}
	}
	return bpf.RetConstant{Val: retErrno | uint32(v.errno)}
}
