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

// questionFor is how long a client has for what an upstream server asks.
const questionFor = 10 * time.Minute

// leaving is closed once, by whatever first makes a request leave its call.
type leaving struct {
	once sync.Once
	now  chan struct{}
}

func newLeaving() *leaving { return &leaving{now: make(chan struct{})} }

func (l *leaving) leave() { l.once.Do(func() { close(l.now) }) }

// asker passes what upstream servers ask on to the client of a request: at once where
// there is a session to do it in, and else by what the call is answered, which asked
// gets. It is nil for a client that takes nothing.
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
				wire = "upstream." + name // in names of its own the gateway asks
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

// reservedInput begins the names of the gateway's own questions.
const reservedInput = "palyra."

// inputOf is a request as the library has it.
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
		return nil, reason.Errorf(reason.InvalidInput, "no client takes %q", r.Method)
	}
	return p, json.Unmarshal(r.Params, p)
}

// askAtOnce asks in the session. It does so in the request's context, so that the
// questions go to its stream.
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
	return nil, reason.Errorf(reason.InvalidInput, "no client takes a %T", p)
}

// askInRounds has the call answered with what is asked, and waits for the client to make
// it again with the answers.
func (q *request) askInRounds(call context.Context, l *leaving, asked chan<- *inputs, params mcp.InputRequestMap) (mcp.InputResponseMap, error) {
	// Who knows what a server asks may answer before.
	x := q.face.asked.begin(q.owner(), q.digest, params, q.early())
	defer q.face.asked.forget(x)
	if !x.full() {
		select {
		case asked <- x.inputs():
			l.leave()
		default:
			return nil, reason.Errorf(reason.InvalidInput, "the client is asked something else")
		}
	}
	late := time.NewTimer(questionFor)
	defer late.Stop()
	select {
	case <-x.done:
		return x.answers, nil
	case <-late.C:
		return nil, reason.Errorf(reason.TimedOut, "the client gave no answer within %s", questionFor)
	case <-call.Done():
		return nil, context.Cause(call)
	}
}

// early are the answers that a call brought by itself, once.
func (q *request) early() mcp.InputResponseMap {
	q.once.Lock()
	defer q.once.Unlock()
	given := q.responses
	q.responses = nil
	return given
}

// questions are what upstream servers ask of clients that have to answer with their next
// request.
type questions struct {
	mu   sync.Mutex
	open map[string]*exchange
}

// exchange is what is asked at once about one call.
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

// answer takes what a client brings with a repeated call. id is of what it was asked, ""
// when it does not say. It returns what is still to be asked about the call, nil for
// nothing, and whether anything was taken.
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

// take keeps answers that fit what is asked. All else is none of it.
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
