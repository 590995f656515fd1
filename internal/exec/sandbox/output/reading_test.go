package output

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox"
)

// pipes returns both streams of a program, and the ends to which the test writes.
func pipes(t *testing.T) (stdout, stderr, toOut, toErr *os.File) {
	t.Helper()
	var list []*os.File
	for range 2 {
		r, w, err := os.Pipe()
		must.Do(t, err)
		list = append(list, r, w)
		t.Cleanup(func() { r.Close(); w.Close() })
	}
	return list[0], list[2], list[1], list[3]
}

func TestReading(t *testing.T) {
	t.Parallel()
	stdout, stderr, toOut, toErr := pipes(t)
	chunks := map[string]string{} // no lock: chunks come one at a time
	r := Start(stdout, stderr, 1<<20, func(stream string, chunk []byte) { chunks[stream] += string(chunk) })
	long := strings.Repeat("0123456789", 20_000)
	written := make(chan bool)
	go func() {
		_, _ = io.WriteString(toErr, "error\n")
		toErr.Close()
		_, _ = io.WriteString(toOut, long)
		toOut.Close()
		close(written)
	}()
	<-written
	out, errs := r.Finish()
	if string(out.Head) != long || string(errs.Head) != "error\n" || out.Truncated || errs.Truncated {
		t.Errorf("%d bytes of %d, %q", len(out.Head), len(long), errs.Head)
	}
	if chunks["stdout"] != long || chunks["stderr"] != "error\n" {
		t.Errorf("provisionally: %d bytes of %d, %q", len(chunks["stdout"]), len(long), chunks["stderr"])
	}
	select {
	case <-r.Flooded():
		t.Error("so little is taken for a flood")
	default:
	}
	if _, err := stdout.Stat(); err == nil {
		t.Error("the stream was left open")
	}
}

// Both streams count together. Output after the limit is read but not passed on.
func TestFlood(t *testing.T) {
	t.Parallel()
	const keep = 4096
	const limit = keep * sandbox.OutputFactor
	for _, c := range []struct {
		name     string
		out, err int
		want     bool
	}{
		{"at the limit", limit, 0, false}, {"beyond it", limit + 1, 0, true},
		{"errors beyond it", 0, limit + 1, true}, {"both at it together", limit / 2, limit / 2, false},
		{"both beyond it together", limit/2 + 1, limit / 2, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, toOut, toErr := pipes(t)
			passed := 0
			r := Start(stdout, stderr, keep, func(_ string, chunk []byte) { passed += len(chunk) })
			_, _ = toOut.Write(make([]byte, c.out))
			_, _ = toErr.Write(make([]byte, c.err))
			flooded := false
			if c.want {
				<-r.Flooded()
				flooded = true
				_, _ = toOut.Write(make([]byte, limit)) // the write never blocks
			}
			toOut.Close()
			toErr.Close()
			out, errs := r.Finish()
			select {
			case <-r.Flooded():
				flooded = true
			default:
			}
			if flooded != c.want || passed > limit {
				t.Errorf("flooded: %t, passed on %d of %d", flooded, passed, limit)
			}
			all := c.out
			if c.want {
				all += limit
			}
			sum := sha256.Sum256(make([]byte, all))
			if out.Total != int64(all) || out.SHA256 != "sha256:"+hex.EncodeToString(sum[:]) || errs.Total != int64(c.err) {
				t.Errorf("total %d of %d, errors %d of %d, digest %s", out.Total, all, errs.Total, c.err, out.SHA256)
			}
			if len(out.Head)+len(out.Tail) > keep {
				t.Errorf("%d bytes were kept, want %d", len(out.Head)+len(out.Tail), keep)
			}
		})
	}
}

// A process that outlives the program keeps its output open. The received output counts, and
// the wait lasts at most EOFWait.
func TestHeldOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stdout, toOut := io.Pipe()
		stderr, toErr := io.Pipe()
		r := Start(stdout, stderr, 1024, nil)
		_, _ = io.WriteString(toOut, "some")
		toErr.Close()
		start := time.Now()
		out, _ := r.Finish()
		if waited := time.Since(start); waited != EOFWait {
			t.Errorf("waited %s", waited)
		}
		if string(out.Head) != "some" {
			t.Errorf("%q", out.Head)
		}
		if _, err := toOut.Write([]byte("more")); err == nil {
			t.Error("the stream is still open for what holds it")
		}
		// A slow stream that ends in time is read to its end.
		stdout, toOut = io.Pipe()
		r = Start(stdout, io.NopCloser(strings.NewReader("")), 1024, nil)
		go func() {
			for range 3 {
				time.Sleep(EOFWait / 4)
				_, _ = toOut.Write([]byte("x"))
			}
			toOut.Close()
		}()
		if out, _ := r.Finish(); string(out.Head) != "xxx" {
			t.Errorf("%q", out.Head)
		}
	})
}

// Control characters and invalid text are kept.
func TestBytesStayAsTheyAre(t *testing.T) {
	t.Parallel()
	raw := []byte("\x1b]0;title\a\x9b31m\xff\x00\u202e\u200b\r\n")
	r := Start(io.NopCloser(bytes.NewReader(raw)), io.NopCloser(strings.NewReader("")), 1024, nil)
	sum := sha256.Sum256(raw)
	if out, _ := r.Finish(); !bytes.Equal(out.Head, raw) || out.SHA256 != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Errorf("%q", out.Head)
	}
}

// A call without output uses almost no memory.
//
// Not parallel: it measures the heap of the process.
func TestIdleMemory(t *testing.T) {
	const runs = 200
	var before, after runtime.MemStats
	var list []*Reading
	var ends []io.Closer
	for range 3 { // the remains of earlier tests in pools need two collections
		runtime.GC()
	}
	runtime.ReadMemStats(&before)
	for range runs {
		stdout, toOut := io.Pipe()
		stderr, toErr := io.Pipe()
		list = append(list, Start(stdout, stderr, 1<<20, nil))
		ends = append(ends, toOut, toErr)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if each := int64(after.HeapAlloc-before.HeapAlloc) / runs; each > 4*firstBuffer {
		t.Errorf("an idle run takes %d bytes", each)
	}
	for _, c := range ends {
		c.Close()
	}
	for _, r := range list {
		r.Finish()
	}
}

func BenchmarkReading(b *testing.B) {
	data := make([]byte, 1<<20)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		r := Start(io.NopCloser(bytes.NewReader(data)), io.NopCloser(strings.NewReader("")), 1<<20, nil)
		r.Finish()
	}
}
