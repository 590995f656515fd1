//go:build darwin || linux

package seatbelt

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"palyra/internal/exec/sandbox/inside"

	"golang.org/x/sys/unix"
)

// maxOrder is the maximum size of an order, in bytes: 128 arguments and as many variables of 128
// KiB each, escaped.
const maxOrder = 256 << 20

// Child runs the helper, which a Runner starts inside a sandbox. The helper reports on the
// sandbox and then becomes the program of the run. Child returns only on failure.
func Child() error {
	return child(os.NewFile(wordFD, "word"), os.NewFile(reportFD, "report"), attempt)
}

// child implements Child with the given descriptors and the given function for the attempts.
func child(word, report *os.File, attempt func(tries) denied) error {
	if word == nil || report == nil {
		return errors.New("only palyrad starts this command")
	}
	words := bufio.NewReader(io.LimitReader(word, maxOrder))
	o, err := readOrder(words)
	if err != nil {
		return err
	}
	step, err := o.settle()
	if err != nil {
		return tell(report, finding{Failed: step, Error: err.Error()})
	}
	if err := tell(report, o.look(attempt)); err != nil {
		return err
	}
	if line, err := words.ReadString('\n'); err != nil || line != goWord {
		return errors.New("palyrad refused to start the program")
	}
	step, err = o.start()
	return errors.Join(err, tell(report, finding{Failed: step, Error: err.Error()}))
}

func readOrder(words *bufio.Reader) (order, error) {
	var o order
	line, err := words.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &o)
	}
	if err != nil {
		return o, fmt.Errorf("reading the order: %w", err)
	}
	return o, nil
}

func tell(report *os.File, f finding) error {
	if err := json.NewEncoder(report).Encode(f); err != nil {
		return fmt.Errorf("reporting: %w", err)
	}
	return nil
}

// settle changes to the working directory, sets the limits and marks all descriptors except the
// standard ones to be closed when the program starts.
func (o order) settle() (step string, err error) {
	if err := os.Chdir(o.Dir); err != nil {
		return stepWorkspace, err
	}
	if err := same(".", o.Place); err != nil {
		return stepWorkspace, err
	}
	for _, l := range o.Rlimits {
		// This call also prevents the syscall package from restoring the initial RLIMIT_NOFILE.
		if err := syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}); err != nil {
			return "setting the limit " + l.Name, err
		}
	}
	for fd := 3; fd < maxDescriptors; fd++ {
		syscall.CloseOnExec(fd)
	}
	return "", nil
}

// maxDescriptors is larger than the number of inherited descriptors: two from the daemon, and the
// descriptors of the Go runtime.
const maxDescriptors = 1024

// look returns the denied attempts, the limits in force and the open descriptors.
func (o order) look(attempt func(tries) denied) finding {
	f := finding{Denied: attempt(o.Tries), Rlimits: map[string]uint64{}, Open: []int{}, UID: os.Getuid(), GID: os.Getgid()}
	for _, l := range o.Rlimits {
		var now syscall.Rlimit
		if syscall.Getrlimit(l.Resource, &now) == nil {
			f.Rlimits[l.Name] = now.Cur
		}
	}
	if sid, err := unix.Getsid(0); err == nil {
		f.Leader = sid == os.Getpid()
	}
	for fd := 3; fd < maxDescriptors; fd++ {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			f.Open = append(f.Open, fd)
		}
	}
	return f
}

// start replaces the helper with the program.
func (o order) start() (step string, err error) {
	if err := same(o.Exec, o.File); err != nil {
		return stepProgram, err
	}
	return stepExec, syscall.Exec(o.Exec, o.Argv, o.Env)
}

// same verifies that a path leads to a file in the expected state.
func same(name string, want inside.Identity) error {
	got, err := identityOf(name)
	if err != nil {
		return err
	}
	if want.Mtime == 0 && want.Ctime == 0 {
		got.Size, got.Mtime, got.Ctime = want.Size, 0, 0
	}
	if got != want {
		return fmt.Errorf("%s was changed", name)
	}
	return nil
}

func identityOf(name string) (inside.Identity, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return inside.Identity{}, err
	}
	return inside.Identity{Dev: uint64(st.Dev), Ino: st.Ino, Size: st.Size, Mtime: st.Mtim.Nano(), Ctime: st.Ctim.Nano()}, nil
}

// attempt tries actions that must be denied. A successful action is undone; the run is then
// refused.
func attempt(t tries) denied {
	return denied{
		Read:  opens(t.Canary, os.O_RDONLY),
		Write: opens(t.Canary, os.O_WRONLY),
		Make:  makes(t.Make),
		Dial:  dials(t.Dial),
	}
}

// opens reports whether opening a file is denied.
func opens(name string, flag int) bool {
	f, err := os.OpenFile(name, flag, 0)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, unix.EPERM)
}

// makes reports whether creating a file is denied.
func makes(name string) bool {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		f.Close()
		os.Remove(name)
	}
	return errors.Is(err, unix.EPERM)
}

// dials reports whether a connection is denied.
func dials(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, unix.EPERM)
}
