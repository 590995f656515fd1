//go:build cgo && unix

package main

import (
	"encoding/binary"
	"time"
)

// subscription is a subscription of poll_oneoff.
type subscription struct {
	user uint64
	// kind is 0 for a clock, 1 and 2 for reading and writing a stream.
	kind     byte
	timeout  uint64
	absolute bool
}

func readSubscription(b []byte) subscription {
	return subscription{
		user: binary.LittleEndian.Uint64(b), kind: b[8],
		timeout: binary.LittleEndian.Uint64(b[24:]), absolute: binary.LittleEndian.Uint16(b[40:])&1 != 0,
	}
}

// wait returns the time until a clock's subscription is due.
func (s subscription) wait(g *guest) time.Duration {
	timeout := min(s.timeout, 1<<62)
	if s.absolute {
		return time.Duration(int64(timeout) - g.now())
	}
	return time.Duration(timeout)
}

// event encodes the event of a due subscription.
func (s subscription) event() []byte {
	e := make([]byte, 32)
	binary.LittleEndian.PutUint64(e, s.user)
	e[10] = s.kind
	return e
}
