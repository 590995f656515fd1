package main

import (
	"errors"

	"golang.org/x/sys/unix"

	"palyra/internal/exec/sandbox/inside"
)

// send writes one message.
func send(r inside.Report) error { return sendRights(r, nil) }

// offer writes one message with descriptors. palyrad takes them by number, or with pass receives
// them with the message. They MUST stay open until the tool starts.
func offer(r inside.Report, pass bool, fds ...int) error {
	if pass && len(fds) > 0 {
		return sendRights(r, unix.UnixRights(fds...))
	}
	r.Files = fds
	return send(r)
}

func sendRights(r inside.Report, rights []byte) error {
	text := inside.Encode(&r)
	if len(text) > inside.MaxMessage {
		return unix.EMSGSIZE
	}
	return unix.Sendmsg(inside.ControlFD, text, rights, nil, unix.MSG_NOSIGNAL)
}

// await blocks until palyrad sends a message, which must be the given one. A closed socket is an
// error: palyrad no longer needs the run.
func await(word string) error {
	var text [8]byte
	for {
		n, err := unix.Read(inside.ControlFD, text[:])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return err
		case string(text[:n]) != word:
			return unix.ECANCELED
		}
		return nil
	}
}

// awaitOrder blocks until a call arrives, and returns its order.
func awaitOrder() (order inside.Order, err error) {
	if err := await(inside.Ordered); err != nil {
		return order, fail("waiting for the order", err)
	}
	return order, readSealed(inside.OrderFD, &order)
}

// awaitGo blocks until palyrad has checked the report.
func awaitGo() error { return fail("waiting at the gate", await(inside.Go)) }
