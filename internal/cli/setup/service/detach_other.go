//go:build !unix

package service

import (
	"os"
	"os/exec"
)

// gated returns a command that starts at once, because this system cannot delay it.
func gated(program string, args ...string) (cmd *exec.Cmd, begin func() error, err error) {
	return exec.Command(program, args...), func() error { return nil }, nil
}

// detach does nothing: a terminal does not end programs on this system.
func detach(*exec.Cmd) {}

// terminate kills a process, because this system has no termination signal.
func terminate(p *os.Process) error { return p.Kill() }

// alive reports whether a process has the pid.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}
