package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/core/tool"
)

// everySoOften is the interval of progress notifications. Some clients end a call that sends
// none.
const everySoOften = 10 * time.Second

// watch reports the progress of a call to its client, and asks the client to show a pending
// approval. It lasts for one request.
type watch struct {
	q *request
	// token is the client's progress token, nil if it has none.
	token any
	// send has the request's context, so that notifications go to its stream.
	send func(*mcp.ProgressNotificationParams)
	ask  func(approvalID, message, url string) (stop func())

	mu    sync.Mutex
	sent  float64
	says  string
	asked *approval.Record
	// answered ends the open request at the client; nil for none.
	answered func()
	over     chan struct{}
	ticking  sync.WaitGroup
}

func (q *request) watch(ctx context.Context) *watch {
	w := &watch{q: q, token: q.token, says: "the call is being decided", over: make(chan struct{})}
	w.send = func(p *mcp.ProgressNotificationParams) { _ = q.session.NotifyProgress(ctx, p) } // a disconnected client receives nothing
	w.ask = func(id, message, url string) func() { return q.open(ctx, id, message, url) }
	if w.token != nil {
		w.ticking.Go(w.tick)
	}
	return w
}

// tick reports the state of the call to the client in each interval.
func (w *watch) tick() {
	ticker := time.NewTicker(everySoOften)
	defer ticker.Stop()
	for {
		select {
		case <-w.over:
			return
		case <-ticker.C:
			w.mu.Lock()
			says := w.says
			w.mu.Unlock()
			w.tell(says)
		}
	}
}

// tell sends one notification. The progress numbers increase monotonically.
func (w *watch) tell(message string) {
	if w.token == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent++
	w.send(&mcp.ProgressNotificationParams{ProgressToken: w.token, Progress: w.sent, Message: message})
}

// progress forwards the progress of the tool. A number below the previous one is raised to it.
func (w *watch) progress(p tool.Progress) {
	if w.token == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p.Done <= w.sent {
		p.Done = w.sent
	}
	w.sent = p.Done
	w.says = "the tool runs"
	w.send(&mcp.ProgressNotificationParams{ProgressToken: w.token, Progress: p.Done, Total: p.Total, Message: p.Message})
}

// delivers reports whether observe sends something to the client for the event.
func (w *watch) delivers(e call.Event) bool {
	return e.Asked != nil || e.Resolved != nil || e.Decision != nil && w.token != nil
}

// observe processes the events of the call.
func (w *watch) observe(e call.Event) {
	switch {
	case e.Asked != nil && e.Asked.State == approval.Pending:
		w.begin(e.Asked)
	case e.Resolved != nil:
		w.stop()
	case e.Decision != nil && e.Decision.Allowed:
		w.state("the tool runs")
	}
}

// begin reports a pending approval. If the client supports URL requests and has a session,
// begin asks it to show the link while the call waits.
func (w *watch) begin(a *approval.Record) {
	says := fmt.Sprintf("waiting for approval until %s: palyra approve %s", a.ExpiresAt.Format(time.RFC3339), a.ID)
	w.state(says)
	w.mu.Lock()
	w.asked = a
	w.mu.Unlock()
	w.tell(says)
	if w.q.client.takes.URL && !w.q.client.sessionless {
		stop := w.ask(a.ID, questionOf(a), w.q.linkTo(a.ID))
		w.mu.Lock()
		w.answered = stop
		w.mu.Unlock()
	}
}

func (w *watch) state(says string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.says = says
}

// stop ends the open request at the client, if any.
func (w *watch) stop() {
	w.mu.Lock()
	stop := w.answered
	w.answered, w.asked = nil, nil
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

// waitsFor returns the approval that the call waits for, nil for none.
func (w *watch) waitsFor() *approval.Record {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

// end ends the notifications and the requests that the watch started.
func (w *watch) end() {
	w.stop()
	close(w.over)
	w.ticking.Wait()
}
