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

// controlPair returns both ends of a control socket; the first is nonblocking.
func controlPair() (mine, theirs *os.File, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	theirs = os.NewFile(uintptr(pair[1]), "control")
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		theirs.Close()
		return nil, nil, err
	}
	return os.NewFile(uintptr(pair[0]), "control"), theirs, nil
}

// send writes one message with descriptors.
func send(control *os.File, text string, files ...*os.File) error {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	conn, err := control.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = conn.Write(func(fd uintptr) bool {
		failed = unix.Sendmsg(int(fd), []byte(text), unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return failed != unix.EAGAIN
	})
	return errors.Join(err, failed)
}

// receive reads one message with up to most descriptors, which the caller closes. A failure
// reported by the helper is returned as an error, without descriptors.
func receive(control *os.File, most int) (inside.Report, []int, error) {
	var report inside.Report
	text := make([]byte, inside.MaxMessage)
	n, fds, err := receiveMessage(control, text, most)
	if err != nil || n == 0 {
		closeDescriptors(fds)
		return report, nil, errNoReport
	}
	err = inside.Decode(text[:n], &report)
	if err != nil {
		err = fmt.Errorf("reading the report of the sandbox helper: %w", err)
	} else {
		err = refusal(report)
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

// receiveMessage may return descriptors together with an error.
func receiveMessage(control *os.File, text []byte, most int) (n int, fds []int, err error) {
	conn, err := control.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	const each = 4 // sizeof(int)
	rights := make([]byte, unix.CmsgSpace(each*most))
	var got, flags int
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, got, flags, _, failed = unix.Recvmsg(int(fd), text, rights, unix.MSG_CMSG_CLOEXEC)
			// If a helper ended without reading its order, the first read returns a connection
			// reset, followed by its remaining messages.
			if failed != unix.EINTR && failed != unix.ECONNRESET {
				return failed != unix.EAGAIN
			}
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, nil, err
	}
	fds, err = descriptors(rights[:got])
	if len(fds) > most || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = unix.EMSGSIZE
	}
	return n, fds, err
}

// descriptors returns the descriptors of a message. It may return descriptors together with an
// error.
func descriptors(rights []byte) (fds []int, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		some, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, err
		}
		fds = append(fds, some...)
	}
	return fds, nil
}
