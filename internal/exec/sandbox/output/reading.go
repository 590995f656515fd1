package output

import (
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/exec/sandbox"
)

// EOFWait is how long the rest of the output is waited for once the program has
// ended: another process that never ends may have the other end of the pipe open.
const EOFWait = 2 * time.Second

// A buffer starts small, as most streams are idle most of the time, and grows
// while reads fill it.
const (
	firstBuffer = 4 << 10
	mostBuffer  = 64 << 10
)

// Reading takes in both streams of one run.
type Reading struct {
	stdout, stderr io.ReadCloser
	out, err       *Capture
	// limit is how many bytes both streams may have together.
	limit   int64
	total   atomic.Int64
	flood   sync.Once
	flooded chan struct{}
	one     sync.Mutex
	each    func(stream string, chunk []byte)
	readers sync.WaitGroup
}

// Start reads both streams until they end; Finish waits for that. It keeps up
// to keep bytes of each. Each, which may be nil, gets provisional chunks from
// "stdout" and "stderr", one at a time, and must not keep them.
func Start(stdout, stderr io.ReadCloser, keep int64, each func(stream string, chunk []byte)) *Reading {
	return begin(stdout, stderr, keep, keep*sandbox.OutputFactor, each)
}

// Follow is Start for a sandbox.Session: no output is a flood, and each gets all of it.
func Follow(stdout, stderr io.ReadCloser, keep int64, each func(stream string, chunk []byte)) *Reading {
	return begin(stdout, stderr, keep, math.MaxInt64, each)
}

func begin(stdout, stderr io.ReadCloser, keep, limit int64, each func(stream string, chunk []byte)) *Reading {
	r := &Reading{
		stdout: stdout, stderr: stderr,
		out: NewCapture(keep), err: NewCapture(keep),
		limit: limit, flooded: make(chan struct{}), each: each,
	}
	r.readers.Go(func() { r.drain("stdout", stdout, r.out) })
	r.readers.Go(func() { r.drain("stderr", stderr, r.err) })
	return r
}

// Flooded is closed when both streams together have passed
// sandbox.OutputFactor times the bytes that are kept of each: the run is to be
// stopped. Below that, bytes that do not fit are only left out. Reading goes on
// after it, so that a program which is being killed does not block in write(2).
func (r *Reading) Flooded() <-chan struct{} { return r.flooded }

// Finish is called when the program has ended. It waits for the rest of the
// output, for EOFWait at most, closes both streams and returns what came.
func (r *Reading) Finish() (stdout, stderr sandbox.Stream) {
	late := time.AfterFunc(EOFWait, r.close)
	r.readers.Wait()
	late.Stop()
	r.close()
	return r.out.Stream(), r.err.Stream()
}

func (r *Reading) close() {
	r.stdout.Close()
	r.stderr.Close()
}

func (r *Reading) drain(name string, from io.Reader, to *Capture) {
	buffer := make([]byte, firstBuffer)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			_, _ = to.Write(buffer[:n])
			r.deliver(name, buffer[:n])
		}
		if err != nil { // the end, or Finish has closed the stream
			return
		}
		if n == len(buffer) && n < mostBuffer {
			buffer = make([]byte, 2*n)
		}
	}
}

// deliver passes a chunk on, until the run is to be stopped for its output.
func (r *Reading) deliver(name string, chunk []byte) {
	if r.total.Add(int64(len(chunk))) > r.limit {
		r.flood.Do(func() { close(r.flooded) })
		return
	}
	if r.each == nil {
		return
	}
	r.one.Lock()
	defer r.one.Unlock()
	r.each(name, chunk)
}
