package server

import (
	"context"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"palyra/internal/reason"
	"palyra/internal/tool"
)

// questionFor is how long a client has for the question of an upstream server.
const questionFor = 10 * time.Minute

// leaving is closed once, by whatever first makes a request leave its call.
type leaving struct {
	once sync.Once
	now  chan struct{}
}

func newLeaving() *leaving { return &leaving{now: make(chan struct{})} }

func (l *leaving) leave() { l.once.Do(func() { close(l.now) }) }

// elicitor passes questions of upstream servers on to the client of a request: at once
// where there is a session to do it in, and else by what the call is answered, which
// asked gets. It is nil for a client that takes none.
func (q *request) elicitor(ctx context.Context, l *leaving, asked chan<- *inputs) func(context.Context, tool.Elicitation) (tool.Elicited, error) {
	if !q.client.form && !q.client.url {
		return nil
	}
	return func(call context.Context, e tool.Elicitation) (tool.Elicited, error) {
		if e.Mode == "url" && !q.client.url || e.Mode != "url" && !q.client.form {
			return tool.Elicited{}, reason.Errorf(reason.InvalidInput, "the client takes no questions of mode %q", e.Mode)
		}
		params := &mcp.ElicitParams{Mode: e.Mode, Message: e.Server + " asks: " + e.Message, URL: e.URL, ElicitationID: e.ID}
		if e.Schema != nil {
			params.RequestedSchema = e.Schema
		}
		if !q.client.sessionless {
			// In the request's context, so that it goes to its stream.
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(call, cancel)()
			return elicited(q.session.Elicit(ctx, params))
		}
		id, answer, forget := q.face.asked.ask(q.owner())
		defer forget()
		select {
		case asked <- &inputs{question: id, ends: time.Now().Add(questionFor), requests: mcp.InputRequestMap{id: params}}:
		default:
			return tool.Elicited{}, reason.Errorf(reason.InvalidInput, "the client is asked something else")
		}
		l.leave()
		select {
		case r := <-answer:
			return elicited(r, nil)
		case <-time.After(questionFor):
			return tool.Elicited{Action: "cancel"}, nil
		case <-call.Done():
			return tool.Elicited{}, context.Cause(call)
		}
	}
}

func elicited(r *mcp.ElicitResult, err error) (tool.Elicited, error) {
	if err != nil {
		return tool.Elicited{}, err
	}
	return tool.Elicited{Action: r.Action, Content: r.Content}, nil
}

// questions are those of upstream servers that clients have to answer with their next
// request.
type questions struct {
	mu   sync.Mutex
	open map[string]question
}

type question struct {
	owner  string
	answer chan *mcp.ElicitResult
}

func newQuestions() *questions { return &questions{open: make(map[string]question)} }

func (q *questions) ask(owner string) (id string, answer <-chan *mcp.ElicitResult, forget func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	id = "palyra.upstream." + ulid.Make().String()
	asked := question{owner, make(chan *mcp.ElicitResult, 1)}
	q.open[id] = asked
	return id, asked.answer, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.open, id)
	}
}

// answer passes on what a client answered; nothing is a cancel.
func (q *questions) answer(owner, id string, responses mcp.InputResponseMap) {
	q.mu.Lock()
	defer q.mu.Unlock()
	asked, ok := q.open[id]
	if !ok || asked.owner != owner {
		return
	}
	r, ok := responses[id].(*mcp.ElicitResult)
	if !ok || r == nil {
		r = &mcp.ElicitResult{Action: "cancel"}
	}
	select {
	case asked.answer <- r:
	default: // it was answered
	}
}
