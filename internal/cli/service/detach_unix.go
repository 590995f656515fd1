//go:build unix

package service

import (
	"os"
	"os/exec"
	"syscall"
)

// detach gives a program a session of its own, which no terminal ends.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// terminate asks a process to end in order.
func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
