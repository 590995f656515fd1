package process

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// Environment is the environment of every process under test. It has no settings of the user.
func Environment(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8"}
}

// Result is the result of a process that has exited.
type Result struct {
	Args     []string
	Code     int
	Out, Err string
}

// Want fails the test unless the process ended with the exit code and its messages contain all of
// says.
func (r Result) Want(t *testing.T, code int, says ...string) {
	t.Helper()
	if r.Code != code {
		t.Fatalf("%v: exit code %d, want %d\nstdout: %s\nstderr: %s", r.Args, r.Code, code, r.Out, r.Err)
	}
	for _, text := range says {
		if !strings.Contains(r.Err, text) {
			t.Errorf("%v does not say %q:\n%s", r.Args, text, r.Err)
		}
	}
}

// Finish runs a process to its end.
func Finish(t *testing.T, cmd *exec.Cmd) Result {
	t.Helper()
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	err := Run(cmd)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v", cmd.Args, err)
	}
	return Result{Args: cmd.Args[1:], Code: cmd.ProcessState.ExitCode(), Out: out.String(), Err: msg.String()}
}

// Child is a process that runs in parallel to its test.
type Child struct {
	Cmd *exec.Cmd
	// Out and Err are its output.
	Out, Err *Output
	// Ended is closed when the process has ended.
	Ended chan struct{}
}

// Begin starts a process and returns immediately. A process that still runs at the end of the test
// is killed.
func Begin(t *testing.T, cmd *exec.Cmd) *Child {
	t.Helper()
	c := begin(t, cmd, NewOutput(), NewOutput())
	t.Cleanup(func() {
		_ = c.Cmd.Process.Kill()
		<-c.Ended
	})
	return c
}

// drainPatience is how long the output of an ended process is read while its child processes hold
// it open.
const drainPatience = 5 * time.Second

func begin(t *testing.T, cmd *exec.Cmd, out, msg *Output) *Child {
	t.Helper()
	c := &Child{Cmd: cmd, Out: out, Err: msg, Ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = c.Out, c.Err
	cmd.WaitDelay = drainPatience
	must.Do(t, cmd.Start())
	go func() {
		_ = cmd.Wait()
		close(c.Ended)
	}()
	return c
}

// Wait waits until the process ends.
func (c *Child) Wait(t *testing.T) Result {
	t.Helper()
	if !Ended(c.Ended) {
		t.Fatalf("%v (process %d) did not end\nstdout: %s\nstderr: %s", c.Cmd.Args, c.Cmd.Process.Pid, c.Out, c.Err)
	}
	return Result{Args: c.Cmd.Args[1:], Code: c.Cmd.ProcessState.ExitCode(), Out: c.Out.String(), Err: c.Err.String()}
}

// End requests the end of the process, and kills it if it does not end.
func (c *Child) End(t *testing.T) {
	t.Helper()
	_ = c.Cmd.Process.Signal(syscall.SIGTERM)
	if !Ended(c.Ended) {
		_ = c.Cmd.Process.Kill()
		<-c.Ended
		t.Errorf("process %d had to be killed", c.Cmd.Process.Pid)
	}
}
