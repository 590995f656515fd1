package mcp

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// questionFor is how long a client has to answer an upstream server's request.
const questionFor = 10 * time.Minute

// leaving is closed once, by the first cause that makes a request leave its call.
type leaving struct {
	once sync.Once
	now  chan struct{}
}

func newLeaving() *leaving { return &leaving{now: make(chan struct{})} }

func (l *leaving) leave() { l.once.Do(func() { close(l.now) }) }

// asker returns the function that forwards requests of upstream servers to the client. With a
// session, the function sends them immediately. Without sessions, it sends them to asked, and
// the result of the call contains them. asker returns nil for a client that supports no
// requests.
func (q *request) asker(ctx context.Context, l *leaving, asked chan<- *inputs) func(context.Context, map[string]tool.Request) (map[string]json.RawMessage, error) {
	if !q.client.asks() {
		return nil
	}
	return func(call context.Context, requests map[string]tool.Request) (map[string]json.RawMessage, error) {
		params, theirs := mcp.InputRequestMap{}, map[string]string{}
		for name, r := range requests {
			p, err := inputOf(r)
			if err != nil {
				return nil, err
			}
			wire := name
			if strings.HasPrefix(name, reservedInput) {
				wire = "upstream." + name // the gateway's own requests have reserved names
			}
			params[wire], theirs[wire] = p, name
		}
		var answers mcp.InputResponseMap
		var err error
		if q.client.sessionless {
			answers, err = q.askInRounds(call, l, asked, params)
		} else {
			answers, err = q.askAtOnce(ctx, call, params)
		}
		if err != nil {
			return nil, err
		}
		texts := make(map[string]json.RawMessage, len(answers))
		for wire, a := range answers {
			if texts[theirs[wire]], err = json.Marshal(a); err != nil {
				return nil, err
			}
		}
		return texts, nil
	}
}

// reservedInput is the prefix of the names of the gateway's own requests.
const reservedInput = "palyra."

// inputOf converts a request to the library's type.
func inputOf(r tool.Request) (mcp.InputRequest, error) {
	var p mcp.InputRequest
	switch r.Method {
	case "elicitation/create":
		p = new(mcp.ElicitParams)
	case "sampling/createMessage":
		p = new(mcp.CreateMessageWithToolsParams)
	case "roots/list":
		p = new(mcp.ListRootsParams)
	default:
		return nil, reason.Errorf(reason.InvalidInput, "the method %q is not supported", r.Method)
	}
	return p, json.Unmarshal(r.Params, p)
}

// askAtOnce sends the requests in the session. It uses the request's context, so that they go
// to the request's stream.
func (q *request) askAtOnce(ctx, call context.Context, params mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(call, cancel)()
	var mu sync.Mutex
	var asking sync.WaitGroup
	var failed error
	answers := mcp.InputResponseMap{}
	for name, p := range params {
		asking.Go(func() {
			a, err := q.askOne(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			if answers[name] = a; err != nil {
				failed = err
			}
		})
	}
	asking.Wait()
	return answers, failed
}

func (q *request) askOne(ctx context.Context, p mcp.InputRequest) (mcp.InputResponse, error) {
	switch p := p.(type) {
	case *mcp.ElicitParams:
		return q.session.Elicit(ctx, p)
	case *mcp.CreateMessageWithToolsParams:
		return q.session.CreateMessageWithTools(ctx, p)
	case *mcp.ListRootsParams:
		return q.session.ListRoots(ctx, p)
	}
	return nil, reason.Errorf(reason.InvalidInput, "%T is not supported", p)
}

// askInRounds answers the call with the requests, and waits for the client to repeat it with the
// answers.
func (q *request) askInRounds(call context.Context, l *leaving, asked chan<- *inputs, params mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	// A client may answer in advance.
	x := q.face.asked.begin(q.owner(), q.digest, params, q.early())
	defer q.face.asked.forget(x)
	if !x.full() {
		select {
		case asked <- x.inputs():
			l.leave()
		default:
			return nil, reason.Errorf(reason.InvalidInput, "the client has another open request")
		}
	}
	late := time.NewTimer(questionFor)
	defer late.Stop()
	select {
	case <-x.done:
		return x.answers, nil
	case <-late.C:
		return nil, reason.Errorf(reason.TimedOut, "the client did not answer within %s", questionFor)
	case <-call.Done():
		return nil, context.Cause(call)
	}
}

// early returns the answers that the call contained in advance, and removes them.
func (q *request) early() mcp.InputResponseMap {
	q.once.Lock()
	defer q.once.Unlock()
	given := q.responses
	q.responses = nil
	return given
}

// questions are requests of upstream servers to clients that answer with their next request.
type questions struct {
	mu   sync.Mutex
	open map[string]*exchange
}

// exchange is a set of requests that are asked together about one call.
type exchange struct {
	id, owner, digest string
	requests          mcp.InputRequestMap
	ends              time.Time

	// answers are complete when done is closed.
	answers mcp.InputResponseMap
	done    chan struct{}
}

func newQuestions() *questions { return &questions{open: make(map[string]*exchange)} }

func (qs *questions) begin(owner, digest string, requests mcp.InputRequestMap, given mcp.InputResponseMap) *exchange {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	x := &exchange{
		id: ulid.Make().String(), owner: owner, digest: digest, requests: requests, ends: time.Now().Add(questionFor),
		answers: mcp.InputResponseMap{}, done: make(chan struct{}),
	}
	x.take(given)
	qs.open[x.id] = x
	return x
}

func (qs *questions) forget(x *exchange) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	delete(qs.open, x.id)
}

// answer accepts the answers of a repeated call. id is the exchange that they are for, "" if
// unspecified. It returns the exchange that is still open for the call, nil for none, and whether
// an answer was accepted.
func (qs *questions) answer(owner, digest, id string, given mcp.InputResponseMap) (still *exchange, took bool) {
	qs.mu.Lock()
	defer qs.mu.Unlock()
	for _, x := range qs.open {
		if x.owner != owner || x.digest != digest || x.full() || id != "" && x.id != id {
			continue
		}
		if took = x.take(given); x.full() {
			return nil, took
		}
		if still == nil || x.id < still.id {
			still = x
		}
	}
	return still, took
}

// take stores the answers that match the requests, and ignores all others.
func (x *exchange) take(given mcp.InputResponseMap) (took bool) {
	for name, r := range x.requests {
		if a, ok := given[name]; ok && fits(r, a) {
			x.answers[name], took = a, true
		}
	}
	if len(x.answers) == len(x.requests) {
		close(x.done)
	}
	return took
}

func fits(r mcp.InputRequest, a mcp.InputResponse) bool {
	switch r.(type) {
	case *mcp.ElicitParams:
		a, is := a.(*mcp.ElicitResult)
		return is && a != nil
	case *mcp.CreateMessageWithToolsParams:
		a, is := a.(*mcp.CreateMessageWithToolsResult)
		return is && a != nil
	case *mcp.ListRootsParams:
		a, is := a.(*mcp.ListRootsResult)
		return is && a != nil
	}
	return false
}

func (x *exchange) full() bool {
	select {
	case <-x.done:
		return true
	default:
		return false
	}
}

func (x *exchange) inputs() *inputs {
	return &inputs{question: x.id, ends: x.ends, requests: x.requests}
}
