//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/core/rpc"
	"palyra/internal/identity"
)

// model adds a model to the configuration whose provider is a server of the test.
func (g *gateway) model(name, provider, url, key string) {
	g.T.Helper()
	file := filepath.Join(g.Dir, name+".key")
	g.write(file, key+"\n")
	g.configure(fmt.Sprintf("[[models]]\nname = %q\nprovider = %q\nmodel = \"test-model\"\nbase_url = %q\napi_key_file = %q\n", name, provider, url, file))
}

// script adds a scripted model to the configuration.
func (g *gateway) script(name, text string) {
	g.T.Helper()
	file := filepath.Join(g.Dir, name+".yaml")
	g.write(file, text)
	g.configure(fmt.Sprintf("[[models]]\nname = %q\nprovider = \"scripted\"\nscript = %q\n", name, file))
}

// api is a client of the gateway's API, as a Go program uses it.
type api struct {
	t *testing.T
	palyrav1connect.GatewayServiceClient
}

func (c *client) api() api {
	t := c.g.T
	t.Helper()
	dir := c.credentials
	if dir == "" {
		dir = c.g.bundle()
	}
	bundle := must.Get(identity.ReadBundle(dir))(t)
	transport := &http.Transport{TLSClientConfig: bundle.ClientTLS(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return api{t, palyrav1connect.NewGatewayServiceClient(&http.Client{Transport: transport}, "https://"+c.g.address(), connect.WithGRPC())}
}

// runStream is an open stream of a run.
type runStream struct {
	t      *testing.T
	stream *rpc.BidiStream[*palyrav1.RunStreamRequest, *palyrav1.RunStreamResponse]
	// leave breaks the connection.
	leave context.CancelFunc
	// events are the events received so far.
	events []*palyrav1.RunEvent
}

func (a api) open(first *palyrav1.RunStreamRequest) *runStream {
	a.t.Helper()
	ctx, leave := context.WithTimeout(a.t.Context(), must.Patience)
	a.t.Cleanup(leave)
	stream, err := a.RunStream(ctx)
	if err == nil {
		err = stream.Send(first)
	}
	if err != nil && !errors.Is(err, io.EOF) { // after EOF, Receive returns the error
		a.t.Fatal(err)
	}
	return &runStream{t: a.t, stream: stream, leave: leave}
}

func starts(message string, change ...func(*palyrav1.StartRunRequest)) *palyrav1.RunStreamRequest {
	req := &palyrav1.StartRunRequest{Message: message}
	for _, fn := range change {
		fn(req)
	}
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Start{Start: req}}
}

func resumes(id string, after int64) *palyrav1.RunStreamRequest {
	return &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Resume{Resume: &palyrav1.ResumeRun{RunId: id, After: after}}}
}

// until reads up to the first message that wanted accepts.
func (s *runStream) until(what string, wanted func(*palyrav1.RunStreamResponse) bool) *palyrav1.RunStreamResponse {
	s.t.Helper()
	for {
		m, err := s.stream.Receive()
		if err != nil {
			s.t.Fatalf("the stream ended with %v before %s, after %v", err, what, kinds(s.events))
		}
		if e := m.GetEvent(); e != nil {
			s.events = append(s.events, e)
		}
		if wanted(m) {
			return m
		}
	}
}

// started returns the id of the run.
func (s *runStream) started() string {
	s.t.Helper()
	m := s.until("its start", func(m *palyrav1.RunStreamResponse) bool { return m.GetEvent().GetStarted() != nil })
	return m.GetEvent().GetStarted().GetRun().GetRunId()
}

// asked returns the approval that a call waits for.
func (s *runStream) asked() *palyrav1.Approval {
	s.t.Helper()
	m := s.until("an approval", func(m *palyrav1.RunStreamResponse) bool { return m.GetEvent().GetApprovalRequested() != nil })
	return m.GetEvent().GetApprovalRequested().GetApproval()
}

// vote answers an approval on the stream.
func (s *runStream) vote(asked *palyrav1.Approval) {
	s.t.Helper()
	must.Do(s.t, s.stream.Send(&palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Approval{Approval: &palyrav1.DecideApprovalRequest{
		ApprovalId: asked.GetApprovalId(), Allow: true, ShownDigest: asked.GetCallDigest(),
	}}}))
}

// finished reads to the end of the stream, which is also the end of the run.
func (s *runStream) finished() *palyrav1.Run {
	s.t.Helper()
	m := s.until("its end", func(m *palyrav1.RunStreamResponse) bool { return m.GetEvent().GetFinished() != nil })
	if _, err := s.stream.Receive(); !errors.Is(err, io.EOF) {
		s.t.Errorf("after its end the stream goes on: %v", err)
	}
	return m.GetEvent().GetFinished().GetRun()
}

// tape reads the events of a finished run.
func (a api) tape(id string, after int64) []*palyrav1.RunEvent {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), must.Patience)
	defer cancel()
	stream := must.Get(a.WatchRun(ctx, &palyrav1.WatchRunRequest{RunId: id, After: after}))(a.t)
	defer stream.Close()
	var list []*palyrav1.RunEvent
	for stream.Receive() {
		if e := stream.Msg().GetEvent(); e != nil {
			list = append(list, e)
		}
	}
	if stream.Err() != nil {
		a.t.Fatal(stream.Err())
	}
	return list
}

// run returns a run as the API lists it.
func (a api) run(id string) *palyrav1.Run {
	a.t.Helper()
	res := must.Get(a.GetRun(a.t.Context(), &palyrav1.GetRunRequest{RunId: id}))(a.t)
	return res.GetRun()
}

// lasting omits the events that are not sent again.
func lasting(list []*palyrav1.RunEvent) []*palyrav1.RunEvent {
	return slices.DeleteFunc(slices.Clone(list), func(e *palyrav1.RunEvent) bool {
		return e.GetModelDelta() != nil || e.GetModelRetry() != nil || e.GetOutput() != nil
	})
}

// sequences returns the sequence numbers of events.
func sequences(list []*palyrav1.RunEvent) []int64 {
	out := make([]int64, len(list))
	for i, e := range list {
		out[i] = e.GetSequence()
	}
	return out
}

func kinds(list []*palyrav1.RunEvent) []string {
	var out []string
	for _, e := range list {
		name := fmt.Sprintf("%T", e.GetEvent())
		out = append(out, name[strings.LastIndexByte(name, '_')+1:])
	}
	return out
}

// within waits for a signal of a server.
func within(t *testing.T, what string, signal <-chan struct{}) {
	t.Helper()
	select {
	case <-signal:
	case <-time.After(must.Patience):
		t.Fatalf("not within %v: %s", must.Patience, what)
	}
}
