package upstream

import (
	"context"
	"encoding/json"
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

// Calls takes the calls that a server's start and its questions depend on through the pipeline.
type Calls interface {
	CallDependent(ctx context.Context, c tool.DependentCall, asked func(approval string)) (tool.DependentResult, error)
}

// Serve has what servers ask decided by a pipeline. Until then it is refused.
func (m *Manager) Serve(c Calls) { m.asking.calls = c }

// asking are the requests of servers that are under way.
type asking struct {
	calls Calls

	mu sync.Mutex
	// open are the questions by ticket. A call of <server>/mcp.elicit and the like
	// without one is by somebody else than the server.
	open map[string]*question
}

// question is one request of a server to the client of a call.
type question struct {
	server string
	// tool is which of the gateway's tools passes it on, name the server's own name of
	// it, and request what the client gets.
	tool, name string
	request    tool.Request
	// input is what policies and people see of it.
	input map[string]any
	// summary and notes are what a person reads who is asked about it, url is what is
	// to be opened.
	summary string
	notes   []string
	url     string
	round   *round
	// joined says that it waits for the client, with the others of its round.
	joined bool
}

// round is what a server asks at once. The client gets it at once, too, when of each
// part is known whether it is let through.
type round struct {
	mu       sync.Mutex
	left     int
	requests map[string]tool.Request
	// broken is set by a part without which the server cannot go on: nobody is asked
	// the others then.
	broken bool
	// known is closed when every part has arrived, done when the client has answered, or
	// did not: then answers and err are set.
	known, done chan struct{}
	answers     map[string]json.RawMessage
	err         error
}

// arrive counts one part of the round, with its request unless that was not let through.
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

// pass asks the client, once every part has arrived.
func (r *round) pass(ctx context.Context, peer tool.Peer) {
	defer close(r.done)
	<-r.known
	switch {
	case r.broken:
		r.err = reason.Errorf(reason.ToolFailed, "something else that was asked at once was refused")
	case len(r.requests) > 0:
		r.answers, r.err = peer.Ask(ctx, r.requests)
	}
}

// answer passes a question that was let through on, and returns what the client says.
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
		return nil, reason.Errorf(reason.ToolFailed, "the client gave no answer")
	}
	return answer, nil
}

var (
	declined  = &mcp.ElicitResult{Action: "decline"}
	cancelled = &mcp.ElicitResult{Action: "cancel"}
)

// asked answers a request that a server of the older revisions makes while a call of it
// is under way. One that is of no call, or could be of several, is refused.
func (m *Manager) asked(ctx context.Context, in *instance, p mcp.InputRequest) (mcp.InputResponse, error) {
	const name = "request"
	c, ok := in.only()
	if !ok {
		if _, is := p.(*mcp.ElicitParams); is {
			return declined, nil
		}
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "the request is not of one call: nobody is asked"}
	}
	answers, err := m.ask(ctx, in, c, mcp.InputRequestMap{name: p})
	if err != nil {
		return nil, faultOf(err)
	}
	return answers[name], nil
}

// faultOf is an error as a server gets it, which learns no more than that.
func faultOf(err error) error {
	if fault := (*jsonrpc.Error)(nil); asFault(err, &fault) {
		return fault
	}
	return &jsonrpc.Error{Code: refusedCode, Message: "the request was refused"}
}

// refusedCode is that of the specification's example of a person who says no.
const refusedCode = -1

// ask passes what a server asks on to the client of a call. Each part is a call of its
// own, of <server>/mcp.elicit, mcp.sample or mcp.list_roots, decided under the action of
// that name: asked about by default, and passed on only after a yes. What the client did
// not declare is an error, as a server gets from such a client. A refused elicitation is
// declined; without a model, or roots, a server cannot go on, and that is an error.
func (m *Manager) ask(ctx context.Context, in *instance, c tool.Call, requests mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	r := &round{left: len(requests), requests: map[string]tool.Request{}, known: make(chan struct{}), done: make(chan struct{})}
	var questions []*question
	for _, name := range slices.Sorted(maps.Keys(requests)) {
		q, err := m.questionOf(in.server.Name, requests[name], c.Peer)
		if err != nil {
			return nil, err
		}
		q.name, q.round = name, r
		questions = append(questions, q)
	}
	if m.asking.calls == nil {
		return nil, reason.Errorf(reason.ShuttingDown, "the gateway decides nothing yet")
	}
	if c.Pause != nil {
		defer c.Pause()() // people may take long
	}
	var under sync.WaitGroup
	answers, errs := make([]mcp.InputResponse, len(questions)), make([]error, len(questions))
	for i, q := range questions {
		under.Go(func() { answers[i], errs[i] = m.decided(ctx, c, q) })
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

// decided has one question decided, and passed on.
func (m *Manager) decided(ctx context.Context, c tool.Call, q *question) (mcp.InputResponse, error) {
	if q.tool == declared.Elicit && q.url != "" && m.leadsHome(q.url) {
		q.round.arrive(q, false)
		m.use.Log.WarnContext(ctx, "an upstream server wanted to send somebody to the gateway itself, or to this machine: declined")
		return declined, nil
	}
	ticket := ulid.Make().String()
	q.input["ticket"] = ticket
	input, err := canonical.Marshal(q.input)
	if err != nil {
		q.round.arrive(q, false)
		return q.refused(err) // what has no exact form cannot be decided on
	}
	m.asking.mu.Lock()
	if m.asking.open == nil {
		m.asking.open = map[string]*question{}
	}
	m.asking.open[ticket] = q
	m.asking.mu.Unlock()
	from := c.Proposal
	out, err := m.asking.calls.CallDependent(ctx, tool.DependentCall{
		Caller: from.Caller, Tool: q.server + "/" + q.tool, Input: input, Channel: from.Channel, Session: c.Peer.Session,
	}, nil)
	m.asking.mu.Lock()
	delete(m.asking.open, ticket)
	m.asking.mu.Unlock()
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
		return q.refused(reason.Errorf(reason.ToolFailed, "what the upstream server %s asked of the client (%s) was refused", q.server, q.request.Method))
	}
	return q.read(out.Report.Result)
}

// refused is a no of whatever kind, of which a server learns no more.
func (q *question) refused(err error) (mcp.InputResponse, error) {
	if q.tool == declared.Elicit {
		return declined, nil
	}
	return nil, err
}

// read takes the client's answer.
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
		return nil, reason.Errorf(reason.ToolFailed, "the client's answer to %s is none: %w", q.request.Method, err)
	}
	return answer, nil
}

// only is the call under way on an instance, if it is one.
func (in *instance) only() (tool.Call, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.calls) != 1 {
		return tool.Call{}, false
	}
	for _, c := range in.calls {
		return c.call, true
	}
	return tool.Call{}, false
}
