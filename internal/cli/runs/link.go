package runs

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/core/rpc"
)

// runTries is the maximum number of consecutive attempts to reopen the connection to a run: more
// than half a minute in total.
const runTries = 8

// runLink is the connection of a command to a run. When it is lost, it is reopened after the last
// processed event, so that no event is duplicated or missed.
type runLink struct {
	g *client.Gateway
	// start is the run to start; nil attaches to runID.
	start *palyrav1.StartRunRequest
	// reading selects a read-only link, for any caller that may read the run.
	reading bool
	// runID and after are where the link resumes.
	runID string
	after int64
	// news receives the events, and the end of the link.
	news chan runNews

	mu sync.Mutex
	// stream is the stream to write to, or nil; changed is closed when that changes.
	stream  *runBidi
	changed chan struct{}
	// cancel and closed are repeated on every new stream.
	cancel *palyrav1.CancelRun
	closed bool
}

type runBidi = rpc.BidiStream[*palyrav1.RunStreamRequest, *palyrav1.RunStreamResponse]

// runNews is one of: an event, a refused message, a lost connection that is retried, or the end
// of the link.
type runNews struct {
	event   *palyrav1.RunEvent
	refused *palyrav1.MessageRefused
	lost    time.Duration
	end     error
}

// errRunOver ends the link after the run's last event.
var errRunOver = errors.New("the run is over")

func newRunLink(g *client.Gateway) *runLink {
	return &runLink{g: g, news: make(chan runNews), changed: make(chan struct{})}
}

// follow reads the link until the run is over, or until the connection cannot be reopened. The
// last item that it sends to news is the end.
func (l *runLink) follow(ctx context.Context, first time.Duration) {
	tell := func(n runNews) {
		select {
		case l.news <- n:
		case <-ctx.Done():
		}
	}
	tell(runNews{end: reopenRun(ctx, first, func(wait time.Duration) { tell(runNews{lost: wait}) },
		func(ctx context.Context) (bool, error) { return l.read(ctx, tell) })})
}

// reopenRun reopens the connection to a run when it is lost, even if nothing was received yet.
// The idempotency key makes it safe to send a start twice.
func reopenRun(ctx context.Context, first time.Duration, lost func(time.Duration), open func(context.Context) (bool, error)) error {
	ctx, early := client.NoticeLoss(ctx)
	again := client.Reopening{First: first, Most: 10 * time.Second, Tries: runTries, Early: early, Lost: lost}
	return again.Follow(ctx, func() (bool, error) { return open(ctx) })
}

// read opens the link once and reads it to its end.
func (l *runLink) read(ctx context.Context, tell func(runNews)) (received bool, err error) {
	next, done, err := l.open(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	for {
		msg, err := next()
		if err != nil {
			return received, err
		}
		received = true
		if refused := msg.GetRefused(); refused != nil {
			tell(runNews{refused: refused})
		}
		e := msg.GetEvent()
		if e == nil || e.GetSequence() <= l.after {
			continue // it opens the stream, or was processed before
		}
		if started := e.GetStarted(); started != nil {
			l.runID = started.GetRun().GetRunId()
		}
		l.after = e.GetSequence()
		tell(runNews{event: e})
		if e.GetFinished() != nil {
			return received, errRunOver
		}
	}
}

// open starts a stream after the last processed event. next returns its messages.
func (l *runLink) open(ctx context.Context) (next func() (*palyrav1.RunStreamResponse, error), done func(), err error) {
	if l.reading {
		return l.openWatch(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	stream, err := l.g.Calls.RunStream(ctx)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	l.use(stream)
	// A request does not notice the end of its context while its client may still write, so the
	// request is closed.
	release := context.AfterFunc(ctx, func() { l.closeRequest(stream) })
	return stream.Receive, func() {
		release()
		l.use(nil)
		l.closeRequest(stream)
		cancel()
		_ = stream.CloseResponse()
	}, nil
}

func (l *runLink) openWatch(ctx context.Context) (next func() (*palyrav1.RunStreamResponse, error), done func(), err error) {
	stream, err := l.g.Calls.WatchRun(ctx, &palyrav1.WatchRunRequest{RunId: l.runID, After: l.after})
	if err != nil {
		return nil, nil, err
	}
	next = func() (*palyrav1.RunStreamResponse, error) {
		if stream.Receive() {
			return &palyrav1.RunStreamResponse{Event: stream.Msg().GetEvent()}, nil
		}
		if err := stream.Err(); err != nil {
			return nil, err
		}
		return nil, connect.NewError(connect.CodeUnavailable, errors.New("the stream ended before the run"))
	}
	return next, func() { _ = stream.Close() }, nil
}

// use sets the stream to write to, after the initial messages of every stream. A write error also
// appears as a read error.
func (l *runLink) use(stream *runBidi) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stream = stream
	if stream != nil {
		_ = stream.Send(l.opening())
		if l.cancel != nil {
			_ = stream.Send(&palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Cancel{Cancel: l.cancel}})
		}
		if l.closed {
			_ = stream.CloseRequest()
		}
	}
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *runLink) closeRequest(stream *runBidi) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = stream.CloseRequest()
}

func (l *runLink) opening() *palyrav1.RunStreamRequest {
	if l.runID == "" {
		return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Start{Start: l.start}}
	}
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Resume{Resume: &palyrav1.ResumeRun{RunId: l.runID, After: l.after}}}
}

// send writes a message once there is a stream to write it to.
func (l *runLink) send(ctx context.Context, msg *palyrav1.RunStreamRequest) error {
	for {
		sent, changed := l.trySend(msg)
		if sent {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// trySend writes a message if there is a stream; changed is closed when the stream changes. A
// write error also appears as a read error, which ends the stream.
func (l *runLink) trySend(msg *palyrav1.RunStreamRequest) (sent bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		_ = l.stream.Send(msg)
	}
	return l.stream != nil, l.changed
}

// sendCancel requests the end of the run, on this stream and later ones.
func (l *runLink) sendCancel(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = &palyrav1.CancelRun{Reason: why}
	if l.stream != nil {
		_ = l.stream.Send(&palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Cancel{Cancel: l.cancel}})
	}
}

// sendClose declares the end of messages.
func (l *runLink) sendClose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.stream != nil {
		_ = l.stream.CloseRequest()
	}
}
