//go:build unix

package client

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// TerminalSession names the session of the terminal that this process belongs to:
// its POSIX session, which a shell or a pane of tmux begins, and in which calls
// follow each other. It is "" without a terminal.
func TerminalSession() string {
	tty, err := os.OpenFile("/dev/tty", os.O_RDONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return ""
	}
	_ = tty.Close()
	leader, err := unix.Getsid(0)
	if err != nil {
		return ""
	}
	// The number of a process comes back one day; with its start it does not. Where
	// there is no /proc, the number has to do.
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(leader) + "/stat")
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return sessionName(leader, startOf(string(stat)), string(boot))
}
