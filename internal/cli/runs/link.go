package runs

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
)

// runTries is how often in a row the connection to a run is opened again
// before the command gives up: over half a minute in all.
const runTries = 8

// runLink is the connection of a command to a run. When it is lost, it is
// opened again after the last event that was taken from it, so that nothing
// comes twice and nothing is missed.
type runLink struct {
	g *client.Gateway
	// start is the run to start; nil attaches to runID.
	start *palyrav1.StartRunRequest
	// reading opens a link that only reads: anybody's who may read the run.
	reading bool
	// runID and after are where the link resumes.
	runID string
	after int64
	// news is what the link received, and what became of it.
	news chan runNews

	mu sync.Mutex
	// stream is the one to write to, nil while there is none; changed is closed
	// when that changes.
	stream  *runBidi
	changed chan struct{}
	// cancel and closed are said again on every new stream.
	cancel *palyrav1.CancelRun
	closed bool
}

type runBidi = connect.BidiStreamForClientSimple[palyrav1.RunStreamRequest, palyrav1.RunStreamResponse]

// runNews is one of an event, a refusal, a loss of the connection that ends in
// another try, and the end of all tries.
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

// follow reads the link until the run is over, or the connection cannot be had
// again. Its last news is the end.
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

// reopenRun opens the connection to a run again when it is lost, also when
// nothing was received yet: the key of a start makes it safe to send it twice.
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
			continue // one that opens the stream, or was taken before
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

// open begins a stream where the last one ended. next gives its messages.
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
	// While its client may still write, a request does not notice the end of
	// its context.
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

// use makes a stream the one to write to, after what every stream says first.
// What cannot be written will be an error of reading as well.
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

// trySend writes a message if there is a stream; changed is closed when that
// changes. An error of writing is one of reading, too, and ends the stream.
func (l *runLink) trySend(msg *palyrav1.RunStreamRequest) (sent bool, changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stream != nil {
		_ = l.stream.Send(msg)
	}
	return l.stream != nil, l.changed
}

// sendCancel asks for the end of the run, on this stream and those after it.
func (l *runLink) sendCancel(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancel = &palyrav1.CancelRun{Reason: why}
	if l.stream != nil {
		_ = l.stream.Send(&palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Cancel{Cancel: l.cancel}})
	}
}

// sendClose says that no more messages come.
func (l *runLink) sendClose() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	if l.stream != nil {
		_ = l.stream.CloseRequest()
	}
}
