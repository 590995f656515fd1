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

// clock bounds how long a connection may be silent, and how long it may last.
type clock struct {
	begun, until time.Time
	idle         time.Duration
	// moved is when bytes last passed, either way, in nanoseconds from begun.
	moved atomic.Int64
}

func newClock(idle time.Duration, until time.Time) *clock {
	return &clock{begun: time.Now(), until: until, idle: idle}
}

func (k *clock) tick() { k.moved.Store(int64(time.Since(k.begun))) }

// extend lets c be read from until the time is up, or says why it is.
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
	// in and out are the two ends, which check and count; from and to are the
	// connections underneath.
	in       io.Reader
	out      io.Writer
	from, to net.Conn
	// line is what the first line has to be looked at for, or nil.
	line *firstLine
	// spliced is true when the kernel may do the copying, as soon as direct
	// says so, if it is there. Then count takes what it copied, for which it had
	// an allowance.
	spliced bool
	direct  func() bool
	left    *allowance
	count   func(n int64)

	halted atomic.Bool
	// passed is true when something was to be passed on.
	passed bool
}

var errHalted = errors.New("halted")

// halt ends a flow, whatever it waits for.
func (f *flow) halt() {
	f.halted.Store(true)
	past := time.Unix(1, 0)
	// If these fail, reading and writing do, too.
	_ = f.from.SetReadDeadline(past)
	_ = f.to.SetWriteDeadline(past)
}

// run passes on what comes until there is no more, and then that there is no
// more.
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

// read waits for something to read.
func (f *flow) read(b []byte) (int, error) {
	for {
		if err := f.clock.extend(f.from); err != nil {
			return 0, err
		}
		// Who halts it sets this first and the deadline afterwards.
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
		if f.line.see(b) {
			return broken(egress.ReasonBadHTTP)
		}
		if f.line.over {
			f.line = nil
		}
	}
	_, err := f.out.Write(b)
	return err
}

// How a fast stream is passed on: in chunks that the kernel copies, or by a
// larger buffer. While a chunk is under way, nothing is counted; it ends after
// a while, so that a stream that has become slow does not keep its allowance.
const (
	mostInChunk  = 16 << 20
	leastInChunk = 64 << 10
	chunkTime    = time.Second
	largeBuffer  = 32 << 10
)

// hurry is called when there was more to read than fits into the buffer.
func (f *flow) hurry(buffer []byte) ([]byte, error) {
	if f.spliced && f.line == nil && (f.direct == nil || f.direct()) {
		return buffer, f.splice()
	}
	if len(buffer) < largeBuffer {
		buffer = make([]byte, largeBuffer)
	}
	return buffer, nil
}

// splice has the kernel copy as long as the stream is fast. io.EOF is its end.
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
