//go:build !unix

package service

import (
	"os"
	"os/exec"
)

// gated is a program that begins at once.
func gated(program string, args ...string) (cmd *exec.Cmd, begin func() error, err error) {
	return exec.Command(program, args...), func() error { return nil }, nil
}

// detach has nothing to do: no terminal ends a program here.
func detach(*exec.Cmd) {}

// terminate ends a process: there is no way to ask it here.
func terminate(p *os.Process) error { return p.Kill() }

// alive reports whether there is a process of an id.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	_ = p.Release()
	return true
}
