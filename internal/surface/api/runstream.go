package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/run"
)

// RunStream starts a run or attaches to one, sends its tape, and processes the client's messages.
// The stream ends after the run; the run does not end with the stream.
func (g *gateway) RunStream(ctx context.Context, stream *connect.BidiStream[palyrav1.RunStreamRequest, palyrav1.RunStreamResponse]) error {
	caller := callerOf(ctx)
	caller.Surface = access.SurfaceStream
	s := &runStream{gateway: g, caller: caller, stream: stream}
	first, err := s.first(ctx)
	if err != nil {
		return err
	}
	tape := &tapeReader{
		reader: g.readerOf(ctx, caller), seen: first.GetResume().GetAfter(),
		send: func(e *palyrav1.RunEvent) error { return s.tell(ctx, e) },
	}
	if err := s.open(ctx, first); err != nil {
		return err
	}
	var listening sync.WaitGroup
	listening.Go(func() { s.listen(ctx) })
	err = g.runs.Watch(ctx, s.run, tape.begin(), tape.observe, func() { s.release(ctx) })
	stopReading(ctx)
	listening.Wait()
	return err
}

// firstWait is the default of Config.FirstWait.
const firstWait = 10 * time.Second

// first receives the client's first message. A silent stream ends after a timeout, on shutdown, or
// when its device is revoked.
func (s *runStream) first(ctx context.Context) (*palyrav1.RunStreamRequest, error) {
	var gaveUp error
	var waiting sync.WaitGroup
	came := make(chan struct{})
	waiting.Go(func() {
		select {
		case <-came:
			return
		case <-time.After(s.gateway.firstWait):
			gaveUp = wantsStart()
		case <-s.gateway.stopping:
			gaveUp = reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
		case <-ctx.Done():
			gaveUp = ctx.Err()
		}
		stopReading(ctx)
	})
	m, err := s.stream.Receive()
	close(came)
	waiting.Wait()
	switch {
	case gaveUp != nil:
		return nil, gaveUp
	case errors.Is(err, io.EOF):
		return nil, wantsStart()
	case err != nil:
		return nil, err
	}
	return m, s.gateway.guard.permitFirst(ctx, palyrav1connect.GatewayServiceRunStreamProcedure)
}

func wantsStart() error {
	return reason.Errorf(reason.InvalidInput, "the first message of a stream must be start or resume").
		WithRemedy("Send start or resume first.")
}

// runStream is one client's stream of a run.
type runStream struct {
	gateway *gateway
	caller  access.Caller
	run     string
	// inbox is nil if messages are refused, with mute as the reason.
	inbox run.Inbox
	mute  error

	// mu orders the sent messages: the tape, and answers to the client's messages.
	mu     sync.Mutex
	stream *connect.BidiStream[palyrav1.RunStreamRequest, palyrav1.RunStreamResponse]
}

func (s *runStream) send(m *palyrav1.RunStreamResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stream.Send(m)
}

// tell sends an event of the tape. The message is held back, because the next event may follow
// at once.
func (s *runStream) tell(ctx context.Context, e *palyrav1.RunEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	hold(ctx, true)
	return s.stream.Send(&palyrav1.RunStreamResponse{Event: e})
}

func (s *runStream) release(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	release(ctx)
}

// open processes the first message.
func (s *runStream) open(ctx context.Context, first *palyrav1.RunStreamRequest) error {
	switch m := first.GetMessage().(type) {
	case *palyrav1.RunStreamRequest_Start:
		r, inbox, err := s.gateway.runs.Start(ctx, s.caller, runStartOf(m.Start))
		s.run, s.inbox = r.ID, inbox
		return err
	case *palyrav1.RunStreamRequest_Resume:
		r, err := s.gateway.findRun(ctx, s.caller, m.Resume.GetRunId())
		if err != nil {
			return err
		}
		s.run = r.ID
		return s.attach(ctx, r)
	default:
		return wantsStart()
	}
}

// attach takes the inbox of an active run that the caller may steer.
func (s *runStream) attach(ctx context.Context, r run.Record) error {
	if !steers(s.caller, r) {
		s.mute = mayTalk(s.caller, r)
		return nil
	}
	var err error
	if s.inbox, err = s.gateway.runs.Attach(ctx, s.caller, r.ID); reason.Of(err) == reason.RunEnded {
		s.inbox, s.mute = nil, err
		return nil
	}
	return err
}

// listen processes the client's messages until the client closes its side or disconnects. A
// message without effect is answered, and the stream continues.
func (s *runStream) listen(ctx context.Context) {
	for {
		// The stream's own Receive would discard the content of an invalid message.
		m := &palyrav1.RunStreamRequest{}
		err := s.stream.Conn().Receive(m)
		var invalid *reason.Error
		switch {
		case errors.Is(err, io.EOF):
			s.hangUp(run.Inbox.Close)
			return
		case err != nil && !errors.As(err, &invalid), ctx.Err() != nil:
			s.hangUp(run.Inbox.Leave)
			return
		}
		if err := s.take(ctx, m, invalid); err != nil && s.refuse(ctx, m, err) != nil {
			s.hangUp(run.Inbox.Leave)
			return
		}
	}
}

// hangUp releases the inbox, if any.
func (s *runStream) hangUp(how func(run.Inbox)) {
	if s.inbox != nil {
		how(s.inbox)
	}
}

// take processes a message like a separate request: it consumes a rate-limit token and needs its
// permission, and a denial is journaled.
func (s *runStream) take(ctx context.Context, m *palyrav1.RunStreamRequest, invalid *reason.Error) error {
	row, act := methods[palyrav1connect.GatewayServiceSendRunMessageProcedure], s.say
	switch m.GetMessage().(type) {
	case *palyrav1.RunStreamRequest_Approval:
		row, act = methods[palyrav1connect.ApprovalsServiceDecideApprovalProcedure], s.vote
	case *palyrav1.RunStreamRequest_Cancel:
		row, act = methods[palyrav1connect.GatewayServiceCancelRunProcedure], s.cancel
	}
	const procedure = palyrav1connect.GatewayServiceRunStreamProcedure
	if err := s.gateway.guard.admitMessage(ctx, s.caller, procedure, row); err != nil {
		return err
	}
	if invalid != nil {
		return invalid
	}
	err := act(ctx, m)
	s.gateway.guard.noteDenial(ctx, procedure, err)
	return err
}

func (s *runStream) say(ctx context.Context, m *palyrav1.RunStreamRequest) error {
	switch {
	case m.GetUserMessage() == nil:
		return reason.Errorf(reason.InvalidInput, "this stream already has a run").
			WithRemedy("Open another stream for another run.")
	case s.inbox == nil:
		return s.mute
	}
	return s.inbox.Say(ctx, m.GetUserMessage().GetText())
}

func (s *runStream) vote(ctx context.Context, m *palyrav1.RunStreamRequest) error {
	_, err := vote(urgently(ctx), s.gateway.desk, s.gateway.presence, s.caller, m.GetApproval())
	return err
}

func (s *runStream) cancel(ctx context.Context, m *palyrav1.RunStreamRequest) error {
	_, err := s.gateway.cancelRun(ctx, s.caller, s.run, m.GetCancel().GetReason())
	return err
}

// refuse sends the reason why a message had no effect.
func (s *runStream) refuse(ctx context.Context, m *palyrav1.RunStreamRequest, err error) error {
	why := visibleError(ctx, s.gateway.guard.log, palyrav1connect.GatewayServiceRunStreamProcedure, err)
	return s.send(&palyrav1.RunStreamResponse{Refused: &palyrav1.MessageRefused{
		Reason: string(why.Code), Message: why.Message, Remedy: why.NextStep(), ApprovalId: m.GetApproval().GetApprovalId(),
	}})
}

type stopReadingKey struct{}

// stoppable adds the function to the context with which the handler of RunStream ends its wait
// for the client's next message. A read from the connection does not end with a context.
func stoppable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == palyrav1connect.GatewayServiceRunStreamProcedure {
			stop := func() error { return http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) }
			r = r.WithContext(context.WithValue(r.Context(), stopReadingKey{}, stop))
		}
		next.ServeHTTP(w, r)
	})
}

// stopReading ends the wait for the client's next message. A connection without deadlines is
// already closed, so no read waits on it.
func stopReading(ctx context.Context) {
	if stop, ok := ctx.Value(stopReadingKey{}).(func() error); ok {
		_ = stop()
	}
}
