//go:build unix

package client

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// TerminalSession returns the session name of this process's terminal; "" without one. The name
// identifies the POSIX session, which a shell or a tmux pane starts, so that its calls belong
// to one session.
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
	// Process ids are reused; with the start time they are unique. Without /proc, only the id is
	// used.
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(leader) + "/stat")
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return sessionName(leader, startOf(string(stat)), string(boot))
}
