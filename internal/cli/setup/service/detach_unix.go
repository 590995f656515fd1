//go:build unix

package service

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

// gated returns a command whose program starts after begin is called. If the parent ends before
// that, the command ends, too, so that no unrecorded program runs.
func gated(program string, args ...string) (cmd *exec.Cmd, begin func() error, err error) {
	cmd = exec.Command("sh", append([]string{"-c", `read -r go && exec "$0" "$@" </dev/null`, program}, args...)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	return cmd, func() error {
		_, err := io.WriteString(in, "go\n")
		return err
	}, nil
}

// detach gives a program its own session, independent of the terminal.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// terminate requests the orderly end of a process.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }

// alive reports whether a process has the pid.
func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }
