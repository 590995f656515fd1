package wasm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/wire"
)

// greetingTime is how long a worker may take until its first word, and grace how much
// longer than its call's wall clock it may take to say that it is over.
const (
	greetingTime = 10 * time.Second
	grace        = 2 * time.Second
)

// Bounds of workers.
const (
	mib = 1 << 20
	// compileSpace and compileMemory are what compiling the largest module takes.
	compileSpace, compileMemory = 3 << 30, 1 << 30
	// instanceSpace is what the engine reserves for one memory with its guards, and more.
	instanceSpace = 12 << 30
	// workerMemory is what a worker needs beside its guest's memory.
	workerMemory = 192 * mib
	// workerSpan is how long the calls of a worker take until it is replaced.
	workerSpan = time.Minute
)

// worker is one palyra-wasm in its sandbox. One goroutine at a time speaks to it.
type worker struct {
	conn *net.UnixConn
	// in is what the worker says: a frame is one read, if it is no large one.
	in       *bufio.Reader
	underway sandbox.Underway
	engine   string
	stop     context.CancelFunc
	// ended is closed when the process is gone; failed is then why it could not run, and
	// said what it wrote to standard error.
	ended  chan struct{}
	failed error
	report sandbox.Report
	said   tail

	// Of a worker that runs guests:
	owner  string
	loaded loaded
	// span is how long its calls took, may what they may use.
	span time.Duration
	may  job
	idle time.Time
}

// job is what a worker is started for.
type job struct {
	word  string
	owner string
	// memory and space are the limits of its memory and of its addresses, in bytes.
	memory, space int64
	cpu           time.Duration
}

// launch starts a worker, and returns when it has greeted.
func (r *Runner) launch(ctx context.Context, j job) (*worker, error) {
	ours, theirs, err := sockets()
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &worker{conn: ours, in: bufio.NewReader(ours), stop: stop, ended: make(chan struct{}), owner: j.owner, may: j}
	started := make(chan struct{})
	spec := sandbox.Spec{
		Argv: []string{r.program.Path, j.word}, Executable: r.program.Executable, Toolchains: r.toolchains,
		WorkspaceRoot: r.empty, WorkspaceName: "(none)", Workspace: sandbox.ReadOnly,
		Session: &sandbox.Session{Stdin: theirs, Started: func(u sandbox.Underway) { w.underway = u; close(started) }},
		Limits: sandbox.Limits{
			CPU: j.cpu, Memory: j.memory, Processes: 64, OpenFiles: 64, FileSize: 4096, Tmp: 4096,
			Output: 64 << 10, AddressSpace: j.space,
		},
		Egress: egress.Strict, Owner: j.owner, Output: w.said.add,
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
		<-w.ended // until then theirs is used
	}
	// The worker has its own by now. While this one was open, the end of a worker that did
	// not start would not show.
	_ = theirs.Close()
	if err := w.greeted(ctx); err != nil {
		w.kill()
		return nil, err
	}
	return w, nil
}

// sockets are the two ends of a worker's line. The worker's is one that waits: its program
// does nothing else.
func sockets() (*net.UnixConn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "worker")
	file := os.NewFile(uintptr(pair[0]), "line")
	defer file.Close()
	conn, err := net.FileConn(file)
	if err != nil {
		theirs.Close()
		return nil, nil, fmt.Errorf("making a pair of sockets: %w", err)
	}
	ours, ok := conn.(*net.UnixConn)
	if !ok {
		panic("a pair of Unix sockets is one")
	}
	return ours, theirs, nil
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

// read takes the next frame of a worker, which it has within the time. The end of ctx
// ends the wait.
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

// hurry bounds the waits for what the worker says next: by a time, and by the end of ctx
// until release is called. When release returns false, ctx has ended, and no wait of this
// worker can be relied on any more.
func (w *worker) hurry(ctx context.Context, within time.Duration) (release func() bool, err error) {
	if err := w.conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	return context.AfterFunc(ctx, func() { _ = w.conn.SetReadDeadline(time.Unix(1, 0)) }), nil
}

// next takes the next frame.
func (w *worker) next(ctx context.Context, most int) (wire.Frame, error) {
	f, err := wire.Read(w.in, most)
	if err != nil && ctx.Err() != nil {
		return f, context.Cause(ctx)
	}
	return f, err
}

// write sends a frame; a worker that does not read is not waited for.
func (w *worker) write(kind wire.Kind, head any, body []byte) error {
	if err := w.conn.SetWriteDeadline(time.Now().Add(greetingTime)); err != nil {
		return err
	}
	return wire.Write(w.conn, kind, head, body)
}

// pass sends a frame without a body and a descriptor along with it.
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
		err = errors.New("a short frame was cut off")
	}
	return err
}

// kill ends a worker, and waits until it is gone.
func (w *worker) kill() {
	_ = w.conn.Close()
	w.stop()
	<-w.ended
	if w.report.Layer != nil {
		_ = w.report.Layer.Close()
	}
}

// alive reports whether an idle worker is still there and has said nothing unasked.
func (w *worker) alive() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

// lost is the error of a worker that did not do what it should. It is killed first, so
// that what it said last is known.
func (w *worker) lost(what string, err error) *reason.Error {
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
	if said := w.said.String(); said != "" {
		e = e.WithField("worker", said)
	}
	return e
}

// tail keeps the last of what a worker wrote to standard error.
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
