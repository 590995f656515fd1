// Command palyra-init runs before a tool does, twice: outside, to prepare what
// bubblewrap cannot, and inside, to give up every power that is left, to read
// back what is really in force, and to become the tool. It is small, static and
// reads its orders from a sealed descriptor, never from its environment.
package main

import (
	"encoding/json"
	"errors"
	"os"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/inside"
)

func main() {
	// Capabilities, Landlock, seccomp and the parent-death signal belong to
	// one thread: everything from here to execve happens on this one.
	runtime.LockOSThread()
	debug.SetGCPercent(-1)
	os.Exit(run())
}

// run returns only on failure; success is another program.
func run() int {
	if len(os.Args) == 2 && os.Args[1] == inside.StageHold {
		return hold()
	}
	for fd := inside.ControlFD; fd <= inside.HelperFD; fd++ {
		unix.CloseOnExec(fd)
	}
	spec, err := readSpec()
	if err == nil {
		switch {
		case len(os.Args) == 2 && os.Args[1] == inside.StageOuter:
			err = outer(spec.Outer)
		case len(os.Args) == 2 && os.Args[1] == inside.StageInner:
			err = inner(spec.Inner)
		default:
			err = fail("reading the stage", unix.EINVAL)
		}
	}
	// A report that does not arrive leaves the exit code, which says enough.
	_ = send(failure(err))
	return 125
}

// hold keeps the user namespace it was started in alive until its standard
// input ends.
func hold() int {
	var b [1]byte
	for {
		if n, err := unix.Read(0, b[:]); err != unix.EINTR && n <= 0 {
			return 0
		}
	}
}

// readSpec reads the sealed spec from its start; bubblewrap has not touched
// it, so the same bytes serve both stages.
func readSpec() (inside.Spec, error) {
	var spec inside.Spec
	const want = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW
	seals, err := unix.FcntlInt(inside.SpecFD, unix.F_GET_SEALS, 0)
	if err != nil || seals&want != want {
		return spec, fail("checking the seals of the spec", unix.EPERM)
	}
	var st unix.Stat_t
	if err := unix.Fstat(inside.SpecFD, &st); err != nil {
		return spec, fail("reading the spec", err)
	}
	text := make([]byte, st.Size)
	for got := 0; got < len(text); {
		n, err := unix.Pread(inside.SpecFD, text[got:], int64(got))
		if err != nil || n == 0 {
			return spec, fail("reading the spec", errors.Join(err, unix.EIO))
		}
		got += n
	}
	if err := json.Unmarshal(text, &spec); err != nil {
		return spec, fail("reading the spec", err)
	}
	return spec, nil
}

// stepError is a failure with the step that failed.
type stepError struct {
	step string
	err  error
}

func (e *stepError) Error() string { return e.step + ": " + e.err.Error() }

func (e *stepError) Unwrap() error { return e.err }

func fail(step string, err error) error {
	if err == nil {
		return nil
	}
	return &stepError{step, err}
}

func failure(err error) inside.Report {
	r := inside.Report{Failed: "running", Error: err.Error()}
	var step *stepError
	if errors.As(err, &step) {
		r.Failed, r.Error = step.step, step.err.Error()
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		r.Errno = int(errno)
	}
	return r
}

// send writes one message; if palyrad is gone there is nobody to tell.
func send(r inside.Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return unix.Sendto(inside.ControlFD, text, unix.MSG_NOSIGNAL, nil)
}
