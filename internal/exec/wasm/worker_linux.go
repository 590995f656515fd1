package wasm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/wire"
)

// greetingTime is the timeout for a worker's first frame. grace is how much longer than its
// call's wall clock limit a worker may take to report the end.
const (
	greetingTime = 10 * time.Second
	grace        = 2 * time.Second
)

// Limits of workers.
const (
	mib = 1 << 20
	// compileSpace and compileMemory are sufficient for compiling the largest module.
	compileSpace, compileMemory = 3 << 30, 1 << 30
	// instanceSpace covers the engine's reservation for one memory with its guards.
	instanceSpace = 12 << 30
	// workerMemory is the memory of a worker in addition to its guest's memory.
	workerMemory = 192 * mib
	// workerSpan is the total duration of calls after which a worker is replaced.
	workerSpan = time.Minute
)

// worker is one palyra-wasm process in its sandbox. One goroutine at a time communicates with it.
type worker struct {
	conn *net.UnixConn
	// in buffers the worker's frames, so that one read receives a frame that is not large.
	in       *bufio.Reader
	underway sandbox.Underway
	engine   string
	stop     context.CancelFunc
	// ended is closed when the process has exited. failed and report are then the results of the
	// process, and logTail is the end of its output.
	ended   chan struct{}
	failed  error
	report  sandbox.Report
	logTail tail

	// Fields of a worker that runs guests:
	owner  string
	loaded loaded
	// span is the total duration of the worker's calls, and may contains the worker's limits.
	span time.Duration
	may  job
	idle time.Time
}

// job is the purpose of a worker.
type job struct {
	word  string
	owner string
	// memory and space are the limits of its memory and of its address space, in bytes.
	memory, space int64
	cpu           time.Duration
}

// launch starts a worker, and returns after its greeting.
func (r *Runner) launch(ctx context.Context, j job) (*worker, error) {
	ours, received, err := sockets()
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &worker{conn: ours, in: bufio.NewReader(ours), stop: stop, ended: make(chan struct{}), owner: j.owner, may: j}
	started := make(chan struct{})
	spec := sandbox.Spec{
		Argv: []string{r.program.Path, j.word}, Executable: r.program.Executable, Toolchains: r.toolchains,
		WorkspaceRoot: r.empty, WorkspaceName: "(none)", Workspace: sandbox.ReadOnly,
		Session: &sandbox.Session{Stdin: received, Started: func(u sandbox.Underway) { w.underway = u; close(started) }},
		Limits: sandbox.Limits{
			CPU: j.cpu, Memory: j.memory, Processes: 64, OpenFiles: 64, FileSize: 4096, Tmp: 4096,
			Output: 64 << 10, AddressSpace: j.space,
		},
		Egress: egress.Strict, Owner: j.owner, Output: w.logTail.add,
	}
	r.processes.Go(func() {
		defer close(w.ended)
		w.report, w.failed = r.use.Sandbox.Run(running, spec)
	})
	select {
	case <-started:
	case <-w.ended:
	case <-ctx.Done():
		stop()
		<-w.ended // the process uses its end until then
	}
	// The worker has its own copy by now. While this copy is open, the end of a worker that did
	// not start would not be detected.
	_ = received.Close()
	if err := w.greeted(ctx); err != nil {
		w.kill()
		return nil, err
	}
	return w, nil
}

// sockets returns the two ends of a worker's connection. The worker's end is blocking, because
// its program does nothing else.
func sockets() (*net.UnixConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("creating a socket pair: %w", err)
	}
	received := os.NewFile(uintptr(pair[1]), "worker")
	file := os.NewFile(uintptr(pair[0]), "line")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		received.Close()
		return nil, nil, fmt.Errorf("creating a socket pair: %w", err)
	}
	ours, ok := conn.(*net.UnixConn)
	if !ok {
		panic("the end of a socket pair is not a Unix socket")
	}
	return ours, received, nil
}

func (w *worker) greeted(ctx context.Context) error {
	f, err := w.read(ctx, 0, greetingTime)
	if err != nil {
		return w.lost("it did not start", err)
	}
	g, err := wire.As[wire.Greeting](f, wire.Ready)
	if err != nil {
		return w.lost("it did not start", err)
	}
	w.engine = g.Engine
	return nil
}

// read reads the next frame of a worker, with a timeout. The end of ctx ends the wait.
func (w *worker) read(ctx context.Context, most int, within time.Duration) (wire.Frame, error) {
	release, err := w.hurry(ctx, within)
	if err != nil {
		return wire.Frame{}, err
	}
	f, err := w.next(ctx, most)
	if !release() && err == nil {
		err = context.Cause(ctx)
	}
	return f, err
}

// hurry limits the following reads from the worker: by a timeout, and by the end of ctx until
// release is called. If release returns false, ctx has ended, and further reads from this worker
// are unreliable.
func (w *worker) hurry(ctx context.Context, within time.Duration) (release func() bool, err error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	return context.AfterFunc(ctx, func() { _ = w.conn.SetReadDeadline(time.Unix(1, 0)) }), nil
}

// next reads the next frame.
func (w *worker) next(ctx context.Context, most int) (wire.Frame, error) {
	f, err := wire.Read(w.in, most)
	if err != nil && ctx.Err() != nil {
		return f, context.Cause(ctx)
	}
	return f, err
}

// write sends a frame. It fails if the worker does not read the frame within greetingTime.
func (w *worker) write(kind wire.Kind, head any, body []byte) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(greetingTime)); err != nil {
		return err
	}
	return wire.Write(w.conn, kind, head, body)
}

// pass sends a frame without a body together with a descriptor.
func (w *worker) pass(kind wire.Kind, head any, file *os.File) error {
	var frame bytes.Buffer
	if err := wire.Write(&frame, kind, head); err != nil {
		return err
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(greetingTime)); err != nil {
		return err
	}
	n, _, err := w.conn.WriteMsgUnix(frame.Bytes(), unix.UnixRights(int(file.Fd())), nil)
	if err == nil && n < frame.Len() {
		err = errors.New("a short frame was truncated")
	}
	return err
}

// kill ends a worker and waits until it has exited.
func (w *worker) kill() {
	_ = w.conn.Close()
	w.stop()
	<-w.ended
	_ = w.report.Layer.Close()
}

// alive reports whether the process of a worker still runs.
func (w *worker) alive() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

// lost returns the error of a worker that failed. It kills the worker first, to obtain its last
// output. A worker that closed its connection has grace to exit by itself, because a killed one
// does not report which limit it reached.
func (w *worker) lost(what string, err error) *reason.Error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		select {
		case <-w.ended:
		case <-time.After(grace):
		}
	}
	w.kill()
	var refused *reason.Error
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return reason.Errorf(reason.Cancelled, "the call was cancelled while its guest ran").WithCause(err)
	case errors.As(err, &refused):
		return refused
	case errors.As(w.failed, &refused) && refused.Code != reason.Cancelled:
		return refused
	case errors.Is(err, os.ErrDeadlineExceeded):
		return reason.Errorf(reason.TimedOut, "the WASM worker was killed: %s in time", what)
	}
	e := reason.Errorf(reason.ToolFailed, "the WASM worker ended: %s", what).WithCause(err)
	if w.report.Quota != "" {
		e = reason.Errorf(reason.QuotaExceeded, "%s: the WASM worker was stopped at its limit", w.report.Quota)
	}
	if said := w.logTail.String(); said != "" {
		e = e.WithField("worker", said)
	}
	return e
}

// tail keeps the end of a worker's output.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailBytes = 2048

func (t *tail) add(_ string, chunk []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, chunk...)
	t.text = t.text[max(0, len(t.text)-tailBytes):]
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
