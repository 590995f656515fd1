//go:build linux && (amd64 || arm64)

package seccomp

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"golang.org/x/net/bpf"
)

// Offsets in struct seccomp_data of <linux/seccomp.h>, little-endian.
const (
	offNumber = 0
	offArch   = 4
	offArgs   = 16
)

// The actions of a filter (SECCOMP_RET_* of <linux/seccomp.h>).
const (
	retAllow  = 0x7fff0000
	retNotify = 0x7fc00000
	retErrno  = 0x00050000
	retKill   = 0x80000000 // the whole process
)

// span is a range of numbers with the same action.
type span struct {
	from int
	rule rule
}

// Program returns the filter that is installed last, for the architecture of this build.
// Unknown calls get ENOSYS, and known denied calls get EPERM. Calls of a foreign architecture
// or of the x32 table kill the process.
func Program(o Options) ([]bpf.RawInstruction, error) {
	return NewTable(o).assemble(o.Watch)
}

// Outer returns the filter for the processes that run before the final one is installed. It
// kills on calls of a foreign architecture or of the x32 table and allows everything else. It
// denies no call with an errno, because the kernel uses the strictest action of all filters. An
// errno from this filter would take precedence over the final filter's SECCOMP_RET_USER_NOTIF,
// and the notifier would not receive the call.
func Outer() ([]bpf.RawInstruction, error) {
	return assemble(append(prologue(), bpf.RetConstant{Val: retAllow}))
}

func (t Table) assemble(watch bool) ([]bpf.RawInstruction, error) {
	return assemble(append(prologue(), search(t.spans(), watch)...))
}

func assemble(code []bpf.Instruction) ([]bpf.RawInstruction, error) {
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

// prologue kills on calls outside of the table's architecture, and leaves the number in A.
func prologue() []bpf.Instruction {
	return []bpf.Instruction{
		bpf.LoadAbsolute{Off: offArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: auditArch, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
		bpf.LoadAbsolute{Off: offNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: compatBit, SkipTrue: 1},
		bpf.RetConstant{Val: retKill},
	}
}

// spans converts the table into ranges that cover every number.
func (t Table) spans() []span {
	var out []span
	next := 0
	for _, nr := range slices.Sorted(maps.Keys(t)) {
		if nr > next {
			out = add(out, span{next, rule{otherwise(unknown())}})
		}
		out = add(out, span{nr, t[nr]})
		next = nr + 1
	}
	return add(out, span{next, rule{otherwise(unknown())}})
}

// add appends s, or extends the last span if it has the same action.
func add(list []span, s span) []span {
	if n := len(list); n > 0 && reflect.DeepEqual(list[n-1].rule, s.rule) {
		return list
	}
	return append(list, s)
}

// search emits a binary search over the ranges; the number is in A.
func search(list []span, watch bool) []bpf.Instruction {
	if len(list) == 1 {
		return list[0].rule.code(watch)
	}
	middle := len(list) / 2
	low, high := search(list[:middle], watch), search(list[middle:], watch)
	pivot := uint32(list[middle].from)
	var code []bpf.Instruction
	if len(low) <= 255 {
		code = append(code, bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: pivot, SkipTrue: uint8(len(low))})
	} else {
		// A conditional jump has eight bits, an unconditional one thirty-two.
		code = append(code,
			bpf.JumpIf{Cond: bpf.JumpGreaterOrEqual, Val: pivot, SkipFalse: 1},
			bpf.Jump{Skip: uint32(len(low))})
	}
	return append(append(code, low...), high...)
}

// Bytes encodes the program as an array of struct sock_filter.
func Bytes(program []bpf.RawInstruction) []byte {
	out := make([]byte, 0, 8*len(program))
	for _, i := range program {
		out = append(out, byte(i.Op), byte(i.Op>>8), i.Jt, i.Jf, byte(i.K), byte(i.K>>8), byte(i.K>>16), byte(i.K>>24))
	}
	return out
}
