//go:build linux && (amd64 || arm64)

package notify

import (
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox/seccomp"
)

// mostRefusals is the maximum number of kinds of refused calls in a Log.
const mostRefusals = 20

// refuse counts a call by its kind.
func (s *server) refuse(r request, errno unix.Errno) {
	refusal := tool.Refusal{By: "seccomp", Operation: operation(r), Reason: unix.ErrnoName(errno)}
	same := func(other tool.Refusal) bool {
		return other.Operation == refusal.Operation && other.Reason == refusal.Reason
	}
	i := slices.IndexFunc(s.log.Refusals, same)
	switch {
	case i >= 0:
		s.log.Refusals[i].Count++
	case len(s.log.Refusals) < mostRefusals:
		refusal.Count = 1
		s.log.Refusals = append(s.log.Refusals, refusal)
	default:
		s.log.RefusalsMissed++
	}
}

// operation names a call with the arguments that distinguish it. Descriptors, sizes and addresses
// are omitted, so that the number of kinds is small.
func operation(r request) string {
	name := seccomp.Name(int(r.nr))
	switch int(r.nr) {
	case unix.SYS_SOCKET:
		return fmt.Sprintf("%s of a unix socket (%s; Tier C has them with workspace_mode copy_on_write and egress strict)", name, kinds[r.args[1]&0xf])
	case unix.SYS_FCNTL:
		return name + " for a pipe above 64 KiB"
	case unix.SYS_FALLOCATE, unix.SYS_IOCTL:
		return name + " that allocates blocks"
	}
	return name
}

var kinds = map[uint64]string{unix.SOCK_STREAM: "stream", unix.SOCK_DGRAM: "datagram"}

// The pace of refusals: mostAtOnce within each window, then none until its end. An answer takes
// palyrad some microseconds, so that a program which repeats refused calls uses a part of one
// processor only. Ordinary programs stay below the pace.
const (
	mostAtOnce = 1000
	window     = 100 * time.Millisecond
)

type pace struct {
	start time.Time
	calls int
}

func (p *pace) wait() {
	now := time.Now()
	if now.Sub(p.start) >= window {
		p.start, p.calls = now, 0
	}
	if p.calls++; p.calls > mostAtOnce {
		time.Sleep(window - now.Sub(p.start))
	}
}
