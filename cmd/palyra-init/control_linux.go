package main

import (
	"errors"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// send writes one message with descriptors.
func send(r inside.Report, fds ...int) error {
	text := inside.Encode(&r)
	if len(text) > inside.MaxMessage {
		return unix.EMSGSIZE
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	return unix.Sendmsg(inside.ControlFD, text, rights, nil, unix.MSG_NOSIGNAL)
}

// receive reads one message with its descriptors. A closed socket is an error: palyrad no longer
// needs the run.
func receive(text []byte) (n int, fds []int, err error) {
	rights := make([]byte, unix.CmsgSpace(4*inside.MaxFiles))
	for {
		var got, flags int
		n, got, flags, _, err = unix.Recvmsg(inside.ControlFD, text, rights, unix.MSG_CMSG_CLOEXEC)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return 0, nil, err
		case n == 0:
			return 0, nil, unix.ECANCELED
		case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
			return 0, nil, unix.EMSGSIZE
		case got == 0:
			return n, nil, nil
		}
		fds, err = descriptors(rights[:got])
		return n, fds, err
	}
}

func descriptors(rights []byte) ([]int, error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, err
	}
	var fds []int
	for i := range messages {
		some, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return nil, err
		}
		fds = append(fds, some...)
	}
	return fds, nil
}

// awaitOrder blocks until a call arrives. It returns the call's order, and the descriptors to
// which the order refers by number.
func awaitOrder() (inside.Order, []int, error) {
	const step = "waiting for the order"
	var order inside.Order
	var word [8]byte
	_, fds, err := receive(word[:])
	if err != nil {
		return order, nil, fail(step, err)
	}
	if len(fds) == 0 {
		return order, nil, fail(step, unix.EINVAL)
	}
	if err := readSealed(fds[0], &order); err != nil {
		return order, nil, err
	}
	if max(order.Stdin, order.Bytes, order.Secrets, order.Filter, order.Watched) >= len(fds) {
		return order, nil, fail(step, unix.EBADF)
	}
	return order, fds, nil
}

// awaitGo blocks until palyrad has checked the report.
func awaitGo() error {
	var word [8]byte
	n, _, err := receive(word[:])
	if err == nil && string(word[:n]) != inside.Go {
		err = unix.ECANCELED
	}
	return fail("waiting at the gate", err)
}
