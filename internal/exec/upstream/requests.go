package upstream

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/upstream/declared"
)

// Calls runs the calls behind server starts and server requests through the pipeline.
type Calls interface {
	CallDependent(ctx context.Context, c tool.DependentCall, asked func(approval string)) (tool.DependentResult, error)
}

// Serve sets the pipeline that decides server requests. Without one, requests are refused.
func (m *Manager) Serve(c Calls) { m.asker.calls = c }

// asker forwards requests of servers to clients, and decides them as calls.
type asker struct {
	// calls decides; nil before the gateway is ready.
	calls Calls
	// ownHosts is Config.OwnHosts.
	ownHosts []string
	log      *slog.Logger

	mu sync.Mutex
	// open holds the questions by ticket. A call of <server>/mcp.elicit, mcp.sample or
	// mcp.list_roots without a ticket does not come from the server and is refused.
	open map[string]*question
}

// question is one request of a server to the client of a call.
type question struct {
	server string
	// tool is the gateway tool that forwards the question, name the server's own name for the
	// request, and request the message for the client.
	tool, name string
	request    tool.Request
	// input is the question for policies and approvers.
	input map[string]any
	// summary and notes are displayed to the approver; url is the page to open.
	summary string
	notes   []string
	url     string
	round   *round
	// joined reports that the question waits for the client together with the rest of its round.
	joined bool
}

// round is a set of requests that a server makes at once. The client receives them together,
// after each of them was allowed or refused.
type round struct {
	mu       sync.Mutex
	left     int
	requests map[string]tool.Request
	// broken is set when a refused request makes the round useless to the server. The other
	// requests are then not forwarded.
	broken bool
	// known is closed when every request has arrived. done is closed when answers and err are
	// set.
	known, done chan struct{}
	answers     map[string]json.RawMessage
	err         error
}

// arrive counts one request of the round, and adds it if it was allowed.
func (r *round) arrive(q *question, let bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if let {
		r.requests[q.name], q.joined = q.request, true
	} else if q.tool != declared.Elicit {
		r.broken = true
	}
	if r.left--; r.left == 0 {
		close(r.known)
	}
}

// pass forwards the round to the client after every request has arrived.
func (r *round) pass(ctx context.Context, peer tool.Peer) {
	defer close(r.done)
	<-r.known
	switch {
	case r.broken:
		r.err = reason.Errorf(reason.ToolFailed, "another request of the same round was refused")
	case len(r.requests) > 0:
		r.answers, r.err = peer.Ask(ctx, r.requests)
	}
}

// answer forwards an allowed question and returns the answer of the client.
func (q *question) answer(ctx context.Context) (json.RawMessage, error) {
	q.round.arrive(q, true)
	select {
	case <-q.round.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if q.round.err != nil {
		return nil, q.round.err
	}
	answer, ok := q.round.answers[q.name]
	if !ok {
		return nil, reason.Errorf(reason.ToolFailed, "the client did not answer")
	}
	return answer, nil
}

var (
	declined  = &mcp.ElicitResult{Action: "decline"}
	cancelled = &mcp.ElicitResult{Action: "cancel"}
)

// asked answers a request that a server of an older protocol revision makes during a call. It
// refuses a request that cannot be attributed to exactly one call.
func (ak *asker) asked(ctx context.Context, in *instance, p mcp.InputRequest) (mcp.InputResponse, error) {
	const name = "request"
	c, ok := in.calls.only()
	if !ok {
		if _, is := p.(*mcp.ElicitParams); is {
			return declined, nil
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the request cannot be attributed to one call: it is refused"}
	}
	answers, err := ak.ask(ctx, in, c, mcp.InputRequestMap{name: p})
	if err != nil {
		return nil, faultOf(err)
	}
	return answers[name], nil
}

// faultOf converts an error for the server. It hides the details.
func faultOf(err error) error {
	if fault := (*jsonrpc.Error)(nil); asFault(err, &fault) {
		return fault
	}
	return &jsonrpc.Error{Code: refusedCode, Message: "the request was refused"}
}

// refusedCode is the code that the specification's example uses for a user who rejects the
// request.
const refusedCode = -1

// ask forwards server requests to the client of a call. Each request is a separate call of
// <server>/mcp.elicit, mcp.sample or mcp.list_roots and is decided under the action of that
// name. By default a request requires approval before it is forwarded. If the client did not
// declare the capability, the request fails with the error that such a client would send. A
// refused elicitation is declined. A server cannot continue without a model or roots, so a
// refusal of such a request is an error.
func (ak *asker) ask(ctx context.Context, in *instance, c tool.Call, requests mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	r := &round{left: len(requests), requests: map[string]tool.Request{}, known: make(chan struct{}), done: make(chan struct{})}
	var questions []*question
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q, err := ak.questionOf(in.server.Name, requests[name], c.Peer)
		if err != nil {
			return nil, err
		}
		q.name, q.round = name, r
		questions = append(questions, q)
	}
	if ak.calls == nil {
		return nil, reason.Errorf(reason.ShuttingDown, "the gateway is not ready to decide calls")
	}
	if c.Pause != nil {
		defer c.Pause()() // an approval may take long
	}
	var under sync.WaitGroup
	answers, errs := make([]mcp.InputResponse, len(questions)), make([]error, len(questions))
	for i, q := range questions {
		under.Go(func() { answers[i], errs[i] = ak.decided(ctx, c, q) })
	}
	r.pass(ctx, c.Peer)
	under.Wait()
	all := mcp.InputResponseMap{}
	for i, q := range questions {
		if errs[i] != nil {
			return nil, errs[i]
		}
		all[q.name] = answers[i]
	}
	return all, nil
}

// decided runs one question through the pipeline and forwards it.
func (ak *asker) decided(ctx context.Context, c tool.Call, q *question) (mcp.InputResponse, error) {
	if q.tool == declared.Elicit && q.url != "" && ak.leadsHome(q.url) {
		q.round.arrive(q, false)
		ak.log.WarnContext(ctx, "declined a request of an upstream server to open a page of the gateway or of this machine")
		return declined, nil
	}
	ticket := ulid.Make().String()
	q.input["ticket"] = ticket
	input, err := canonical.Marshal(q.input)
	if err != nil {
		q.round.arrive(q, false)
		return q.refused(err) // a value without canonical form cannot be decided
	}
	ak.mu.Lock()
	if ak.open == nil {
		ak.open = map[string]*question{}
	}
	ak.open[ticket] = q
	ak.mu.Unlock()
	from := c.Proposal
	out, err := ak.calls.CallDependent(ctx, tool.DependentCall{
		Caller: from.Caller, Tool: q.server + "/" + q.tool, Input: input, Channel: from.Channel, Session: c.Peer.Session,
	}, nil)
	ak.mu.Lock()
	delete(ak.open, ticket)
	ak.mu.Unlock()
	q.round.mu.Lock()
	joined := q.joined
	q.round.mu.Unlock()
	if !joined {
		q.round.arrive(q, false)
	}
	if err != nil {
		return q.refused(err)
	}
	if out.Report.Outcome != tool.Succeeded {
		return q.refused(reason.Errorf(reason.ToolFailed, "the request of the upstream server %s to the client (%s) was refused", q.server, q.request.Method))
	}
	return q.read(out.Report.Result)
}

// refused returns a refusal that does not disclose its reason to the server.
func (q *question) refused(err error) (mcp.InputResponse, error) {
	if q.tool == declared.Elicit {
		return declined, nil
	}
	return nil, err
}

// read decodes the client's answer.
func (q *question) read(text json.RawMessage) (mcp.InputResponse, error) {
	var answer mcp.InputResponse
	switch q.tool {
	case declared.Elicit:
		var a mcp.ElicitResult
		if canonical.Read(text, &a) != nil || !slices.Contains([]string{"accept", "decline", "cancel"}, a.Action) {
			return cancelled, nil //nolint:nilerr // what is no answer is none
		}
		a.Meta = nil
		return &a, nil
	case declared.Sample:
		answer = new(mcp.CreateMessageWithToolsResult)
	default:
		answer = new(mcp.ListRootsResult)
	}
	var fields map[string]any
	err := canonical.Names(text, answer)
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err == nil {
		strip(fields, everyKey)
		text, err = json.Marshal(fields)
	}
	if err == nil {
		err = json.Unmarshal(text, answer)
	}
	if err != nil {
		return nil, reason.Errorf(reason.ToolFailed, "the client's answer to %s is not valid: %w", q.request.Method, err)
	}
	return answer, nil
}
