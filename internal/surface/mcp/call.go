package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"reflect"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/core/wirename"
	"palyra/internal/surface/resume"
)

// request is one tools/call, or another method with a call behind it.
type request struct {
	*visit
	face    *Face
	session *mcp.ServerSession
	meta    mcp.Meta
	// token is what the client wants to hear progress by, nil when it does not.
	token any
	// once guards responses: what the client brought for what servers ask. state is
	// that of a repeated call.
	once      sync.Mutex
	responses mcp.InputResponseMap
	state     string
	// client is what it declared, for this request where the revision has that.
	client declared
	sub    call.Submission
	// digest is of what makes two calls the same.
	digest string
	// answer makes the answer of a call that was decided; nil for that of a tool. uri
	// is what the client called the resource that it wants.
	answer func(call.Outcome) (mcp.Result, error)
	uri    string
}

// declared is what a client says of itself.
type declared struct {
	name string
	// sessionless is true for the revisions without sessions, in which a server asks by
	// what it answers (MRTR).
	sessionless bool
	// takes are the requests of servers that it takes, and tasks a way of waiting.
	takes tool.Takes
	tasks bool
}

// asks reports whether the client takes any request.
func (d declared) asks() bool { return d.takes != tool.Takes{} }

func declaredBy(s *mcp.ServerSession) declared {
	p := s.InitializeParams()
	if p == nil {
		return declared{}
	}
	d := declared{sessionless: p.ProtocolVersion >= stateless}
	if p.ClientInfo != nil {
		d.name = p.ClientInfo.Name
	}
	if c := p.Capabilities; c != nil {
		if e := c.Elicitation; e != nil {
			d.takes.URL, d.takes.Form = e.URL != nil, e.Form != nil || e.URL == nil
		}
		d.takes.Sampling, d.takes.SamplingTools = c.Sampling != nil, c.Sampling != nil && c.Sampling.Tools != nil
		d.takes.Roots = c.RootsV2 != nil
		_, tasks := c.Extensions[tasksExtension]
		d.tasks = d.sessionless && tasks
	}
	return d
}

// sessionName is what calls of an MCP session are counted under; those of a client
// without sessions have one for its credential.
func sessionName(id string) string {
	if id == "" {
		return "mcp"
	}
	return "mcp-" + id
}

// callIDs are where agents put the id of a call that they also tell their hooks. It is
// a claim.
var callIDs = []string{"claudecode/toolUseId", "callId"}

// reasonKey is where a client says why it wants a call.
const reasonKey = "palyra.dev/requester-reason"

// reasonBy tells a client so.
const reasonBy = `Make the same call again with the reason as the text "` + reasonKey + `" in its _meta.`

// longestCallID bounds that claim.
const longestCallID = 128

func callID(meta mcp.Meta) string {
	for _, key := range callIDs {
		if id, ok := meta[key].(string); ok && len(id) <= longestCallID {
			return id
		}
	}
	return ""
}

// requestOf is a request with what every method has.
func (f *Face) requestOf(v *visit, req mcp.Request) (*request, error) {
	session, ok := req.GetSession().(*mcp.ServerSession)
	params, known := req.GetParams().(interface {
		GetMeta() map[string]any
		GetProgressToken() any
	})
	if !ok || !known || reflect.ValueOf(params).IsNil() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the method takes parameters"}
	}
	q := &request{visit: v, face: f, session: session, meta: params.GetMeta(), token: params.GetProgressToken(), client: declaredBy(session)}
	q.sub = call.Submission{Caller: v.caller, Session: sessionName(session.ID()), CallID: callID(q.meta)}
	q.sub.Reason, _ = q.meta[reasonKey].(string)
	q.sub.ReasonBy = reasonBy
	q.sub.Peer = tool.Peer{LogLevel: f.logLevel(q)}
	return q, nil
}

// logLevel is from which level on the client wants logs: it says so for a session, or
// with each call.
func (f *Face) logLevel(q *request) string {
	if q.client.sessionless {
		level, _ := q.meta[mcp.MetaKeyLogLevel].(string)
		return level
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.servers[q.caller.Principal]; s != nil {
		return s.levels[q.session.ID()]
	}
	return ""
}

// call answers tools/call.
func (f *Face) call(ctx context.Context, q *request, params *mcp.CallToolParamsRaw) (mcp.Result, error) {
	q.sub.Input, q.responses, q.state = argumentsOf(params.Arguments), params.InputResponses, params.RequestState
	names := f.names()
	name, named := names.Ours(params.Name)
	if !named || !f.shows(q.visit, name, names) {
		return nil, q.unknown(ctx, name, params.Name)
	}
	q.sub.Tool = name
	if f.Arrive != nil {
		q.sub.Vouch = f.Arrive(q.caller, q.sub.CallID, params.Name, q.sub.Input)
	}
	digest, err := q.sub.Digest()
	if err != nil {
		return nil, err
	}
	q.digest = digest
	return q.run(ctx)
}

// Announced is the digest of what a call would be that an agent's hook announces, by the
// tool's name on the wire; "" for what is no call here.
func (f *Face) Announced(ctx context.Context, caller access.Caller, wire string, input []byte) string {
	name, named := f.names().Ours(wire)
	if _, offered := f.Offered(caller, name); !named || !offered {
		return ""
	}
	digest, err := f.Pipeline.CallDigest(ctx, call.Submission{Caller: caller, Tool: name, Input: input})
	if err != nil {
		return "" // it is decided when it arrives
	}
	return digest
}

func argumentsOf(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// shows reports whether the caller is shown a tool.
func (f *Face) shows(v *visit, name string, names wirename.Table) bool {
	d, ok := f.Offered(v.caller, name)
	return ok && f.offers(d, names)
}

// unknown refuses a call of a tool that the caller is not shown, in the same words
// whatever the cause, and has it journaled. The pipeline lets none of these through;
// should policy change in between, the hold does not.
func (q *request) unknown(ctx context.Context, name, wire string) error {
	if q.sub.Tool = name; name == "" {
		q.sub.Tool = "mcp:" + wire // no tool has such a name
	}
	q.sub.Hold = func(context.Context) error {
		return reason.Errorf(reason.UnknownTool, "the caller was not shown the tool when it called")
	}
	_, _ = q.face.Pipeline.Call(ctx, q.sub, func(call.Event) {})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool: " + clipped(wire)}
}

// run makes the call in the way that the client has.
func (q *request) run(ctx context.Context) (mcp.Result, error) {
	select {
	case <-q.face.over:
		return q.notMade(reason.Errorf(reason.ShuttingDown, "the gateway is stopping"))
	default:
	}
	told, still, err := q.resumed()
	if err != nil {
		return nil, err
	}
	inRounds := q.client.sessionless && q.client.asks() && !q.client.tasks
	if still != nil && inRounds {
		return q.require(still.inputs())
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := q.watch(ctx)
	defer w.end()
	gone, stop := q.noticeGone(cancel)
	defer stop()
	elsewhere, asked := newLeaving(), make(chan *inputs, 1)
	stay := resume.Stay{Limit: q.face.limitOf(q.visit, q.client.name), Gone: gone, Leave: elsewhere.now, Heeds: w.heeds, Digest: q.digest}
	q.sub.Peer.Progress, q.sub.Peer.Log = w.progress, q.logger(ctx)
	q.sub.Peer.Takes, q.sub.Peer.Ask = q.client.takes, q.asker(ctx, elsewhere, asked)
	switch {
	case q.client.tasks:
		return q.runAsTask(ctx, w, stay)
	case inRounds:
		return q.runInRounds(ctx, w, stay, told, asked)
	}
	return q.runAtOnce(ctx, w, stay)
}

// runAtOnce makes the call for a client that waits for its end.
func (q *request) runAtOnce(ctx context.Context, w *watch, stay resume.Stay) (mcp.Result, error) {
	return q.ended(q.face.Calls.CallFor(ctx, q.sub, stay, w.observe))
}

// logger passes on what an upstream server logs. The library leaves out what the client
// does not want. It has the request's context, so that it arrives at its stream.
func (q *request) logger(ctx context.Context) func(tool.LogLine) {
	return func(l tool.LogLine) {
		_ = q.session.Log(ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(l.Level), Logger: l.Logger, Data: l.Data}) // who is gone hears nothing
	}
}

// noticeGone tells when the client went away without having cancelled the call: with
// sessions that is no order to end it. What the gateway itself cuts off ends. stop has to
// be called.
func (q *request) noticeGone(cancel context.CancelCauseFunc) (gone <-chan struct{}, stop func() bool) {
	left := make(chan struct{})
	return left, q.whenGone(func() {
		switch why := q.cut(); {
		case why != nil:
			cancel(why)
		case q.client.sessionless:
			cancel(reason.Errorf(reason.Cancelled, "the client closed the request"))
		default:
			close(left)
		}
	})
}

// ended is the answer for a call that ended, or that the client's time ended for.
func (q *request) ended(o call.Outcome, err error) (mcp.Result, error) {
	switch {
	case err != nil:
		return q.notMade(err)
	case q.answer != nil:
		return q.answer(o)
	}
	if err := faultIn(o.Report, ""); err != nil && o.Decision.Allowed && o.Report.Edited == nil {
		return nil, err
	}
	return resultOf(q.sub.Tool, o), nil
}

// notMade is the answer for a call without an outcome.
func (q *request) notMade(err error) (mcp.Result, error) {
	if q.answer != nil {
		return nil, errorOf(q.failed(err))
	}
	return q.failed(err), nil
}

// failed is the answer for a call that was not decided, or cannot be told of.
func (q *request) failed(err error) *result {
	known := reason.Known(err, reason.Internal)
	if known.Code == reason.Internal {
		q.face.Log.Error("an MCP call met a fault of the gateway", slog.String("tool", q.sub.Tool), slog.String("error", err.Error()))
		known = reason.Fault(err)
	}
	return refusal(known, callMeta{
		Proposal: known.Fields["proposal_id"], Approval: known.Fields["approval_id"], ExpiresAt: known.Fields["expires_at"],
	})
}
