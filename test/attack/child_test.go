//go:build linux

package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/test/process"
)

// order instructs this binary, started again, to run a sandbox in a separate process, which the
// test can kill or attach to a terminal.
type order struct {
	Spec   sandbox.Spec
	Config bubblewrap.Config
}

// answer is the child's report of the run.
type answer struct {
	Report sandbox.Report
	Error  string
}

const childOrder = "TEST_PALYRA_ATTACK_ORDER"

// obey is the main function of the child.
func obey(text string) error {
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	r, err := bubblewrap.New(o.Config)
	if err != nil {
		return err
	}
	// The parent waits on standard error until the program runs.
	o.Spec.Output = func(_ string, chunk []byte) { fmt.Fprintf(os.Stderr, "output: %s", chunk) }
	report, err := r.Run(context.Background(), o.Spec)
	if report.Layer != nil {
		err = errors.Join(err, report.Layer.Close())
		report.Layer = nil
	}
	a := answer{Report: report}
	if err = errors.Join(err, r.Close()); err != nil {
		a.Error = err.Error()
	}
	return json.NewEncoder(os.Stdout).Encode(a)
}

// child prepares the command of the child.
func child(t *testing.T, o order) *exec.Cmd {
	t.Helper()
	text := must.Get(json.Marshal(o))(t)
	self := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(os.Environ(), childOrder+"="+string(text), "GORACE=atexit_sleep_ms=0")
	cmd.Dir = "/"
	return cmd
}

// atTerminal runs a program with a palyrad that has a terminal.
func atTerminal(t *testing.T, without []string, s sandbox.Spec) attempt {
	t.Helper()
	master, slave, err := newTerminal()
	if err != nil {
		return attempt{err: err}
	}
	defer master.Close()
	defer slave.Close()
	cmd := child(t, order{s, configOf(without, "")})
	var out, says bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, &out, &says
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := process.Run(cmd); err != nil {
		return attempt{err: fmt.Errorf("%w: %s", err, says.String())}
	}
	var a answer
	if err := json.Unmarshal(out.Bytes(), &a); err != nil {
		return attempt{err: err}
	}
	if a.Error != "" {
		err = errors.New(a.Error)
	}
	return attempt{report: a.Report, err: err, said: lastLine(a.Report.Stdout)}
}

// newTerminal opens a pseudoterminal (pty(7)).
func newTerminal() (master, slave *os.File, err error) {
	if master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile(filepath.Join("/dev/pts", strconv.Itoa(n)), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		master.Close()
		return nil, nil, err
	}
	return master, slave, nil
}
