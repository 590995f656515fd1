package jail

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"palyra/internal/sandbox/inside"
)

// errNoWord means that the control socket closed without a message.
var errNoWord = errors.New("no word from inside")

// controlPair returns both ends of a control socket; the first does not block.
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

// receive reads one message. The caller closes the descriptor that may come
// along; it is -1 when none does. A failure told by the helper is an error.
func receive(control *os.File) (inside.Report, int, error) {
	var report inside.Report
	text := make([]byte, inside.MaxMessage)
	n, fd, err := receiveMessage(control, text)
	if err != nil || n == 0 {
		return report, -1, errNoWord
	}
	err = inside.Decode(text[:n], &report)
	if err != nil {
		err = fmt.Errorf("reading the report from inside: %w", err)
	} else {
		err = refusal(report)
	}
	if err != nil && fd >= 0 {
		unix.Close(fd)
		fd = -1
	}
	return report, fd, err
}

func receiveMessage(control *os.File, text []byte) (n, sent int, err error) {
	conn, err := control.SyscallConn()
	if err != nil {
		return 0, -1, err
	}
	rights := make([]byte, unix.CmsgSpace(4))
	var got, flags int
	var failed error
	err = conn.Read(func(fd uintptr) bool {
		n, got, flags, _, failed = unix.Recvmsg(int(fd), text, rights, unix.MSG_CMSG_CLOEXEC)
		return failed != unix.EAGAIN && failed != unix.EINTR
	})
	if err = errors.Join(err, failed); err != nil {
		return 0, -1, err
	}
	sent, err = descriptor(rights[:got])
	if flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = unix.EMSGSIZE
	}
	return n, sent, err
}

// descriptor returns the one descriptor of a message, -1 for none.
func descriptor(rights []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil || len(messages) == 0 {
		return -1, err
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) == 0 {
		return -1, err
	}
	return fds[0], nil
}
