package jail

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// errNoReport reports that the control socket closed without a message.
var errNoReport = errors.New("the sandbox helper sent no report")

// controlPair returns both ends of a control socket; the first is nonblocking. The kernel adds the
// sender to each message that the first end receives (SO_PASSCRED, unix(7)).
func controlPair() (mine, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(pair[1]), "control")
	err = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	if err == nil {
		err = unix.SetNonblock(pair[0], true)
	}
	if err != nil {
		unix.Close(pair[0])
		theirs.Close()
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "control"), theirs, nil
}

// send writes one message.
func send(control *os.File, text string) error {
	conn, err := control.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Write(func(fd uintptr) bool {
		failed = unix.Sendmsg(int(fd), []byte(text), nil, nil, unix.MSG_NOSIGNAL)
		return failed != unix.EAGAIN
	})
	return errors.Join(err, failed)
}

// receive reads one message with up to most descriptors, which the caller closes. The message
// carries the descriptors, or it names descriptors of its sender. A failure reported by the helper
// is returned as an error, without descriptors.
func receive(control *os.File, most int) (inside.Report, []int, error) {
	var report inside.Report
	text := make([]byte, inside.MaxMessage)
	n, from, fds, err := receiveMessage(control, text, most)
	if err != nil || n == 0 {
		closeDescriptors(fds)
		return report, nil, errNoReport
	}
	if err = inside.Decode(text[:n], &report); err != nil {
		err = fmt.Errorf("reading the report of the sandbox helper: %w", err)
	} else if err = refusal(report); err == nil && len(report.Files) > 0 {
		var taken []int
		taken, err = take(control, from, report.Files, most-len(fds))
		fds = append(fds, taken...)
	}
	if err != nil {
		closeDescriptors(fds)
		fds = nil
	}
	return report, fds, err
}

func closeDescriptors(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// receiveMessage also returns the pid of the sender. It may return descriptors together with an
// error.
func receiveMessage(control *os.File, text []byte, most int) (n, from int, fds []int, err error) {
	conn, err := control.SyscallConn()
	if err != nil {
		return 0, 0, nil, err
	}
	const each = 4 // sizeof(int)
	extra := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(each*most))
	var got, flags int
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, got, flags, _, failed = unix.Recvmsg(int(fd), text, extra, unix.MSG_CMSG_CLOEXEC)
			// If a helper ended without reading its order, the first read returns a connection
			// reset, followed by its remaining messages.
			if failed != unix.EINTR && failed != unix.ECONNRESET {
				return failed != unix.EAGAIN
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, 0, nil, err
	}
	from, fds, err = accompanying(extra[:got])
	if len(fds) > most || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = unix.EMSGSIZE
	}
	return n, from, fds, err
}

// accompanying returns the pid of the sender of a message, and the descriptors of the message. It
// may return descriptors together with an error.
func accompanying(extra []byte) (from int, fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(extra)
	if err != nil {
		return 0, nil, err
	}
	for i := range messages {
		if messages[i].Header.Type == unix.SCM_CREDENTIALS {
			sender, err := unix.ParseUnixCredentials(&messages[i])
			if err != nil {
				return from, fds, err
			}
			from = int(sender.Pid)
			continue
		}
		some, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return from, fds, err
		}
		fds = append(fds, some...)
	}
	return from, fds, nil
}
