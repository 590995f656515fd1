//go:build linux && (amd64 || arm64)

package notify

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/sys/unix"

	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox/seccomp"
)

const (
	// mostRecords is the maximum number of recorded calls of a run.
	mostRecords = 64
	// pause is the delay of the answer to each further call, so that a flood costs the daemon at
	// most a thousand calls a second.
	pause = time.Millisecond
	// mostName is the maximum length of a program name, in bytes.
	mostName = 256
)

// Log contains the first violations and the number of further ones, and the refusals that are not
// violations.
type Log struct {
	Violations []tool.Violation
	Missed     int
	// Refusals are the first kinds of refused calls; RefusalsMissed counts the calls of other kinds.
	Refusals       []tool.Refusal
	RefusalsMissed int
}

// Open converts the descriptor returned by installing the filter into a file that uses the
// runtime's poller.
func Open(fd int) (*os.File, error) {
	unix.CloseOnExec(fd)
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(fmt.Errorf("opening the notifier of a filter: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "seccomp"), nil
}

// Serve answers requests until the filter applies to no process any more, or until the listener
// is closed. Before Linux 5.9 only closing the listener ends Serve. The caller MUST close the
// listener in any case: while it is open without a server, the processes that make denied calls
// hang.
func Serve(listener *os.File, table seccomp.Table) (Log, error) {
	s := server{table: table}
	if err := s.allocate(); err != nil {
		return s.log, fmt.Errorf("preparing the notifier of a filter: %w", err)
	}
	if err := listener.SetReadDeadline(time.Time{}); errors.Is(err, os.ErrNoDeadline) {
		return s.log, fmt.Errorf("waiting for the notifier of a filter: %w", err)
	}
	conn, err := listener.SyscallConn()
	if err != nil {
		return s.log, fmt.Errorf("waiting for the notifier of a filter: %w", err)
	}
	// One request at a time, so that closing takes effect during a flood.
	for !s.over {
		if conn.Read(s.step) != nil {
			break // closed
		}
	}
	return s.log, s.failed
}

// server is the state of one Serve.
type server struct {
	table             seccomp.Table
	request, response []byte
	log               Log
	pace              pace
	// over is true if no caller is left to answer.
	over   bool
	failed error
}

func (s *server) allocate() error {
	sizes, err := structSizes()
	s.request, s.response = make([]byte, sizes.request), make([]byte, sizes.response)
	return err
}

// step handles one request, and returns false if no request is pending.
func (s *server) step(fd uintptr) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if _, err := unix.Poll(fds, 0); err != nil {
		if err != unix.EINTR {
			s.over, s.failed = true, fmt.Errorf("polling the notifier of a filter: %w", err)
		}
		return true
	}
	switch events := fds[0].Revents; {
	case events&unix.POLLIN != 0:
		s.one(int(fd))
	case events != 0: // POLLHUP: the last process has exited
		s.over = true
	default:
		return false
	}
	return true
}

// one answers one request. It ignores ENOENT, which the kernel returns if the caller was
// killed.
func (s *server) one(fd int) {
	r, err := receive(fd, s.request)
	if err == nil {
		errno := s.errno(r)
		s.record(fd, r, errno)
		err = answer(fd, s.response, r.id, errno)
	}
	if err != nil && !errors.Is(err, unix.ENOENT) {
		s.over, s.failed = true, fmt.Errorf("answering a filter: %w", err)
	}
}

// errno is never zero: a response with a zero errno would report success to the caller.
func (s *server) errno(r request) unix.Errno {
	if errno := s.table.Errno(int(r.nr), r.args); errno != 0 {
		return errno
	}
	return unix.EPERM
}

func (s *server) record(fd int, r request, errno unix.Errno) {
	if s.table.Ordinary(int(r.nr), r.args) {
		s.refuse(r, errno)
		s.pace.wait()
		return
	}
	if len(s.log.Violations) == mostRecords {
		s.log.Missed++
		time.Sleep(pause)
		return
	}
	s.log.Violations = append(s.log.Violations, tool.Violation{
		At: time.Now(), Syscall: seccomp.Name(int(r.nr)), Arguments: arguments(r.args),
		Executable: executable(fd, r), Errno: unix.ErrnoName(errno),
	})
}

// arguments returns the arguments in hexadecimal, without zeros at the end of the list.
func arguments(args [6]uint64) []string {
	n := len(args)
	for n > 0 && args[n-1] == 0 {
		n--
	}
	list := make([]string, 0, n)
	for _, a := range args[:n] {
		list = append(list, "0x"+strconv.FormatUint(a, 16))
	}
	return list
}

// executable returns the path of the caller's program. The kernel resolves it in the caller's
// mount namespace. The caller may have created the file, so its name may contain any characters.
func executable(fd int, r request) string {
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", r.pid))
	if err != nil || !alive(fd, r.id) {
		return ""
	}
	return printable(name)
}

func printable(name string) string {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return unicode.ReplacementChar
		}
		return c
	}, name)
	if len(name) > mostName {
		name = strings.ToValidUTF8(name[:mostName], "")
	}
	return name
}
