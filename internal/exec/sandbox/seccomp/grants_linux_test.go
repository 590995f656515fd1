//go:build linux && (amd64 || arm64)

package seccomp

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"
)

// Each grant allows its calls and no others.
func TestGrants(t *testing.T) {
	t.Parallel()
	const high = 1 << 32
	for _, c := range []struct {
		name    string
		nr      int
		args    [6]uint64
		granted func(*Grants)
	}{
		{"stream", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, func(g *Grants) { g.LocalSockets = true }},
		{"datagram", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX | high, unix.SOCK_DGRAM | unix.SOCK_NONBLOCK}, func(g *Grants) { g.LocalSockets = true }},
		{"packets", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_SEQPACKET}, func(g *Grants) { g.LocalSockets = true }},
		{"pair of datagrams", unix.SYS_SOCKETPAIR, [6]uint64{unix.AF_UNIX, unix.SOCK_DGRAM}, func(g *Grants) { g.LocalSockets = true }},
		{"take a terminal", unix.SYS_IOCTL, [6]uint64{3, unix.TIOCSCTTY}, func(g *Grants) { g.Terminals = true }},
		{"trace", unix.SYS_PTRACE, [6]uint64{unix.PTRACE_ATTACH, 2}, func(g *Grants) { g.Tracing = true }},
		{"read memory", unix.SYS_PROCESS_VM_READV, [6]uint64{2}, func(g *Grants) { g.Tracing = true }},
		{"write memory", unix.SYS_PROCESS_VM_WRITEV, [6]uint64{2}, func(g *Grants) { g.Tracing = true }},
		{"raw unix socket", unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_RAW}, nil},
		{"netlink", unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW}, nil},
		{"packet socket", unix.SYS_SOCKET, [6]uint64{unix.AF_PACKET, unix.SOCK_DGRAM}, nil},
		{"vsock", unix.SYS_SOCKET, [6]uint64{unix.AF_VSOCK, unix.SOCK_STREAM}, nil},
		{"TIOCSTI", unix.SYS_IOCTL, [6]uint64{3, unix.TIOCSTI}, nil},
		{"TIOCSTI with a high bit", unix.SYS_IOCTL, [6]uint64{3, unix.TIOCSTI | high}, nil},
		{"TIOCLINUX", unix.SYS_IOCTL, [6]uint64{3, unix.TIOCLINUX}, nil},
		{"TIOCLINUX with a high bit", unix.SYS_IOCTL, [6]uint64{3, unix.TIOCLINUX | high}, nil},
		{"another process's descriptor", unix.SYS_PIDFD_GETFD, [6]uint64{3, 1}, nil},
		{"compare", unix.SYS_KCMP, [6]uint64{2, 3}, nil},
	} {
		all := Grants{LocalSockets: true, Terminals: true, Tracing: true}
		var own Grants
		if c.granted != nil {
			c.granted(&own)
		}
		for _, g := range []Grants{{}, {LocalSockets: true}, {Terminals: true}, {Tracing: true}, all} {
			want := c.granted != nil && (g == own || g == all)
			if got := NewTable(Options{Grants: g}).Errno(c.nr, c.args) == 0; got != want {
				t.Errorf("%s with %s: allowed %t, want %t", c.name, fmt.Sprintf("%+v", g), got, want)
			}
		}
	}
}
