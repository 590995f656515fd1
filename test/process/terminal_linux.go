package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// OpenTerminal opens a pseudo terminal, and returns its master and the path of its other side.
func OpenTerminal(t testing.TB) (master *os.File, name string) {
	t.Helper()
	master = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	n := must.Get(unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN))(t)
	must.Do(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	return master, filepath.Join("/dev/pts", strconv.Itoa(n))
}

// AtTerminal runs a process to its end at a terminal into which the lines are typed. The output at
// the terminal is Err.
func AtTerminal(t *testing.T, cmd *exec.Cmd, lines string) Result {
	t.Helper()
	master, name := OpenTerminal(t)
	terminal := must.Get(os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0))(t)
	must.Get(master.WriteString(lines))(t)
	var out, msg bytes.Buffer
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(&msg, master) // ends when the terminal is closed
	}()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, &out, terminal
	err := Run(cmd)
	must.Do(t, terminal.Close())
	<-shown
	must.Do(t, master.Close())
	if ended := new(exec.ExitError); err != nil && !errors.As(err, &ended) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return Result{Args: cmd.Args[1:], Code: cmd.ProcessState.ExitCode(), Out: out.String(), Err: msg.String()}
}
