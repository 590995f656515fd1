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

// approvalInput is the name of the gateway's own question among the inputs of a call.
const approvalInput = "palyra.approval"

// questionOf is what a client shows of an approval. Whoever reads it is not asked to
// trust it: what the call is stands where it is answered.
func questionOf(a *approval.Record) string {
	return fmt.Sprintf("Palyra waits for a person to allow or deny a call of %s. The link says how to answer; opening it answers nothing.", text.Visible(a.Binding.Tool))
}

// linkTo is the page that says how an approval is answered. It holds no credential.
func (v *visit) linkTo(id string) string { return v.base + ApprovalsPath + id }

// open asks the client to show the link, for as long as the call waits. What the client
// answers changes nothing: accepting means that the link was opened, declining that it
// was not, and the approval waits on.
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

// runInRounds makes the call for a client that is asked by what it is answered: it shows
// the link, and repeats the call with the state that it was given.
func (q *request) runInRounds(ctx context.Context, w *watch, stay resume.Stay, told string, asked <-chan *inputs) (mcp.Result, error) {
	stay.Asks = func(id string) bool { return q.client.takes.URL && id != told }
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

// require is an answer that wants input.
func (q *request) require(in *inputs) (mcp.Result, error) {
	sealed, err := q.face.states.seal(q.visit, q.digest, in)
	if err != nil {
		return nil, err
	}
	r := &result{ResultType: inputRequired, InputRequests: in.requests, RequestState: sealed}
	return r.about(callMeta{Approval: in.approval}), nil
}

// resumed checks the state that a client repeats a call with, and takes the answers that
// it brings. It returns the approval that it was told of, and what is still asked about
// the call. Answers without a state are taken, too: it is a ticket and no authority.
func (q *request) resumed() (told string, still *exchange, err error) {
	var st state
	if q.state != "" {
		if st, err = q.face.states.open(q.visit, q.digest, q.state); err != nil {
			return "", nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
		}
	}
	still, took := q.face.asked.answer(q.owner(), q.digest, st.Question, q.responses)
	if took || q.state != "" {
		q.responses = nil // they are for nothing that is asked later
	}
	return st.Approval, still, nil
}

// ApprovalsPath is where the page of an approval is.
const ApprovalsPath = "/approvals/"

// Page says how an approval is answered, in a terminal and at the console, whose origin
// console tells ("" for none). It knows nothing of the approval, and says the same of any
// id: who asks for it has shown no credential.
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
		there = fmt.Sprintf("In the console, where you are logged in (`palyra console`):\n\n    %s%s%s\n\n", console, ApprovalsPath, id)
	}
	_, _ = fmt.Fprintf(w, `Palyra waits for an answer to approval %[1]s.

This page answers nothing, and opening it was not a yes. In a terminal, as somebody who may answer:

    palyra approvals show %[1]s     the whole call
    palyra approve %[1]s            allow it
    palyra deny %[1]s               deny it

%[2]sThe call goes on by itself as soon as somebody has answered.
`, id, there)
}
