package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"

	"palyra/internal/egress"
)

// clock limits the idle time and the duration of a connection.
type clock struct {
	begun, until time.Time
	idle         time.Duration
	// moved is the time of the last transfer in either direction, in nanoseconds after begun.
	moved atomic.Int64
}

func newClock(idle time.Duration, until time.Time) *clock {
	return &clock{begun: time.Now(), until: until, idle: idle}
}

func (k *clock) tick() { k.moved.Store(int64(time.Since(k.begun))) }

// extend extends the read deadline of c, or returns the error of the expired time.
func (k *clock) extend(c net.Conn) error {
	silent := k.begun.Add(time.Duration(k.moved.Load()) + k.idle)
	now := time.Now()
	switch {
	case !now.Before(k.until):
		return broken(egress.ReasonBudgetTime)
	case !now.Before(silent):
		return broken(egress.ReasonSlow)
	}
	return c.SetReadDeadline(sooner(silent, k.until))
}

// flow passes bytes on in one direction.
type flow struct {
	clock *clock
	// in and out are the two ends, which check and count; from and to are the underlying
	// connections.
	in       io.Reader
	out      io.Writer
	from, to net.Conn
	// line checks the first line, or is nil.
	line *firstLine
	// spliced is true if the kernel may copy the data as soon as direct, if not nil, returns true.
	// left is the allowance for the copied bytes, and count adds them to the total.
	spliced bool
	direct  func() bool
	left    *allowance
	count   func(n int64)

	halted atomic.Bool
	// passed is true once data was received for the other end.
	passed bool
}

var errHalted = errors.New("halted")

// halt ends a flow, including blocked reads and writes.
func (f *flow) halt() {
	f.halted.Store(true)
	past := time.Unix(1, 0)
	// If these calls fail, reads and writes fail as well.
	_ = f.from.SetReadDeadline(past)
	_ = f.to.SetWriteDeadline(past)
}

// run relays data until its end, and then signals the end.
func (f *flow) run() error {
	buffer := make([]byte, mostAtOnce)
	for {
		n, err := f.read(buffer)
		if n > 0 {
			if failed := f.pass(buffer[:n]); failed != nil {
				return failed
			}
		}
		if err == nil && n == len(buffer) {
			buffer, err = f.hurry(buffer)
		}
		switch {
		case errors.Is(err, io.EOF):
			return closeWrite(f.to)
		case err != nil:
			return err
		}
	}
}

// read waits for data and reads it.
func (f *flow) read(b []byte) (int, error) {
	for {
		if err := f.clock.extend(f.from); err != nil {
			return 0, err
		}
		// halt sets this flag before it sets the deadline.
		if f.halted.Load() {
			return 0, errHalted
		}
		n, err := f.in.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		if n > 0 {
			return n, nil
		}
	}
}

func (f *flow) pass(b []byte) error {
	f.clock.tick()
	f.passed = true
	if f.line != nil {
		if f.line.scan(b) {
			return broken(egress.ReasonBadHTTP)
		}
		if f.line.over {
			f.line = nil
		}
	}
	_, err := f.out.Write(b)
	return err
}

// Relaying of a fast stream: in chunks that the kernel copies, or with a larger buffer. Bytes are
// not counted during a chunk; a chunk ends after a time limit, so that a stream that becomes slow
// does not keep its allowance.
const (
	mostInChunk  = 16 << 20
	leastInChunk = 64 << 10
	chunkTime    = time.Second
	largeBuffer  = 32 << 10
)

// hurry speeds up a flow after a read that filled the buffer: the kernel copies the data, or the
// buffer becomes larger.
func (f *flow) hurry(buffer []byte) ([]byte, error) {
	if f.spliced && f.line == nil && (f.direct == nil || f.direct()) {
		return buffer, f.splice()
	}
	if len(buffer) < largeBuffer {
		buffer = make([]byte, largeBuffer)
	}
	return buffer, nil
}

// splice makes the kernel copy the data as long as the stream is fast. It returns io.EOF at the
// end of the stream.
func (f *flow) splice() error {
	for {
		n := f.left.takeSome(mostInChunk)
		if n < leastInChunk {
			f.left.giveBack(n)
			return nil
		}
		err := f.from.SetReadDeadline(sooner(time.Now().Add(chunkTime), f.clock.until))
		var moved int64
		if err == nil {
			moved, err = io.CopyN(f.to, f.from, n)
		}
		f.left.giveBack(n - moved)
		f.count(moved)
		f.clock.tick()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		}
	}
}
