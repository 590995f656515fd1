package output

import (
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"palyra/internal/exec/sandbox"
)

// EOFWait is the timeout for the rest of the output after the program has ended, because
// another process may keep the pipe open forever. If no process keeps it open, only the reader
// in this process has to catch up. A shorter timeout would lose output on a busy machine.
const EOFWait = 2 * time.Second

// A buffer starts small, because most streams are idle most of the time, and grows while reads
// fill it.
const (
	firstBuffer = 4 << 10
	mostBuffer  = 64 << 10
)

// Reading captures both streams of one run.
type Reading struct {
	stdout, stderr io.ReadCloser
	out, err       *Capture
	// limit is the maximum number of bytes of both streams together.
	limit   int64
	total   atomic.Int64
	flood   sync.Once
	flooded chan struct{}
	one     sync.Mutex
	each    func(stream string, chunk []byte)
	readers sync.WaitGroup
}

// Start reads both streams until they end; Finish waits for that. It keeps up to keep bytes of
// each stream. each, which may be nil, receives provisional chunks from "stdout" and "stderr",
// one at a time, and must not keep them.
func Start(stdout, stderr io.ReadCloser, keep int64, each func(stream string, chunk []byte)) *Reading {
	return begin(stdout, stderr, keep, keep*sandbox.OutputFactor, each)
}

// Follow is like Start, but for a sandbox.Session: the output is not limited, and each receives
// all of it.
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

// Flooded is closed when both streams together exceed sandbox.OutputFactor times the number of
// kept bytes of each: the run must then be stopped. Below that, excess bytes are only dropped.
// Reading continues afterwards, so that a program which is being killed does not block in
// write(2).
func (r *Reading) Flooded() <-chan struct{} { return r.flooded }

// Finish must be called after the program has ended. It waits for the rest of the output, for
// EOFWait at most, closes both streams and returns the captured output.
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

// deliver passes a chunk on, until the run must be stopped for its output.
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
