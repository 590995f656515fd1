package mcp

import (
	"context"
	"fmt"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"palyra/internal/call/approval"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/surface/resume"
)

// approvalInput is the name of the gateway's own request among the inputs of a call.
const approvalInput = "palyra.approval"

// questionOf returns the text that a client shows for an approval. It contains no details: the
// terminal or the console shows the call.
func questionOf(a *approval.Record) string {
	return fmt.Sprintf("A call of %s is waiting for approval. The link explains how to answer; opening it does not answer.", text.Visible(a.Binding.Tool))
}

// linkTo returns the URL of the page that explains how to answer an approval. It contains no
// credential.
func (v *httpRequest) linkTo(id string) string { return v.base + ApprovalsPath + id }

// open asks the client to show the link while the call waits. The client's answer only reports
// whether the link was opened: it has no effect, and the approval stays pending.
func (q *request) open(ctx context.Context, id, message, url string) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = q.session.Elicit(ctx, &mcp.ElicitParams{Mode: "url", Message: message, URL: url, ElicitationID: id})
	}()
	return func() {
		select {
		case <-done:
			_ = q.session.NotifyElicitationComplete(context.WithoutCancel(ctx), &mcp.ElicitationCompleteParams{ElicitationID: id})
		default:
		}
		cancel()
		<-done
	}
}

// runInRounds makes the call for a client that receives requests in the result of the call. The
// client shows the link, and repeats the call with the returned state.
func (q *request) runInRounds(ctx context.Context, w *watch, stay resume.Stay, displayed string, asked <-chan *inputs) (mcp.Result, error) {
	stay.Asks = func(id string) bool { return q.client.takes.URL && id != displayed }
	outcome, err := q.face.Calls.CallFor(ctx, q.sub, stay, w.observe)
	if reason.Of(err) != reason.StillWaiting {
		return q.ended(outcome, err)
	}
	select {
	case in := <-asked:
		return q.require(in)
	default:
	}
	a := w.waitsFor()
	if a == nil || !stay.Asks(a.ID) {
		return q.ended(outcome, err)
	}
	return q.require(&inputs{approval: a.ID, ends: a.ExpiresAt.Add(resume.HeldFor), requests: mcp.InputRequestMap{
		approvalInput: &mcp.ElicitParams{Mode: "url", Message: questionOf(a), URL: q.linkTo(a.ID), ElicitationID: a.ID},
	}})
}

// require builds a result that requests input.
func (q *request) require(in *inputs) (mcp.Result, error) {
	sealed, err := q.face.states.seal(q.httpRequest, q.digest, in)
	if err != nil {
		return nil, err
	}
	r := &result{ResultType: inputRequired, InputRequests: in.requests, RequestState: sealed}
	return r.about(callMeta{Approval: in.approval}), nil
}

// resumed verifies the state of a repeated call and accepts its answers. It returns the approval
// that the client was notified of, and the requests that are still open. Answers without a state
// are accepted, too: the state is a ticket and grants no authority.
func (q *request) resumed() (displayed string, still *exchange, err error) {
	var st state
	if q.state != "" {
		if st, err = q.face.states.open(q.httpRequest, q.digest, q.state); err != nil {
			return "", nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
	}
	still, took := q.face.asked.answer(q.owner(), q.digest, st.Question, q.responses)
	if took || q.state != "" {
		q.responses = nil // the answers do not apply to later requests
	}
	return st.Approval, still, nil
}

// ApprovalsPath is the path of approval pages.
const ApprovalsPath = "/approvals/"

// Page serves the instructions for answering an approval in a terminal and in the console.
// console returns the origin of the console, "" for none. The page is the same for any id and
// contains no data of the approval, because its readers are not authenticated.
func Page(console func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { page(w, r, console()) }
}

func page(w http.ResponseWriter, r *http.Request, console string) {
	id := r.PathValue("id")
	if _, err := ulid.ParseStrict(id); err != nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	there := ""
	if console != "" {
		there = fmt.Sprintf("In the console (`palyra console` logs you in):\n\n    %s%s%s\n\n", console, ApprovalsPath, id)
	}
	_, _ = fmt.Fprintf(w, `Approval %[1]s is waiting for an answer.

Opening this page does not answer the approval. In a terminal, as a user who may answer:

    palyra approvals show %[1]s     the whole call
    palyra approve %[1]s            allow it
    palyra deny %[1]s               deny it

%[2]sThe call continues automatically after the answer.
`, id, there)
}
