//go:build !unix

package service

import (
	"os"
	"os/exec"
)

// detach has nothing to do: no terminal ends a program here.
func detach(*exec.Cmd) {}

// terminate ends a process: there is no way to ask it here.
func terminate(p *os.Process) error { return p.Kill() }
