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

// request is one tools/call, or another method that makes a call.
type request struct {
	*httpRequest
	face    *Server
	session *mcp.ServerSession
	meta    mcp.Meta
	// token is the client's progress token, nil if it has none.
	token any
	// once guards responses: the client's answers to servers' requests. state is the state of a
	// repeated call.
	once      sync.Mutex
	responses mcp.InputResponseMap
	state     string
	// client is the client's declaration, which some revisions send with each request.
	client declared
	sub    call.Submission
	// digest identifies the call.
	digest string
	// answer builds the result of a decided call; nil for a tool's result. uri is the client's URI
	// of the requested resource.
	answer func(call.Outcome) (mcp.Result, error)
	uri    string
}

// declared holds a client's declaration of its name, revision and capabilities.
type declared struct {
	name string
	// sessionless is true for the revisions without sessions. In these, a server sends its
	// requests in the result of a call (MRTR).
	sessionless bool
	// takes are the requests of servers that the client supports; tasks is true if it supports
	// tasks.
	takes tool.Takes
	tasks bool
}

// asks reports whether the client supports any request.
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

// sessionName returns the name under which calls of an MCP session are counted; a client without
// sessions has one name per credential.
func sessionName(id string) string {
	if id == "" {
		return "mcp"
	}
	return "mcp-" + id
}

// callIDs are the _meta members in which agents send the id of a call. Agents send the same id
// to their hooks. The id is not verified.
var callIDs = []string{"claudecode/toolUseId", "callId"}

// reasonKey is the _meta member with the client's reason for a call.
const reasonKey = "palyra.dev/requester-reason"

// reasonBy is the remedy that names reasonKey.
const reasonBy = `Repeat the call with the reason as the string "` + reasonKey + `" in its _meta.`

// longestCallID bounds the length of such an id in bytes.
const longestCallID = 128

func callID(meta mcp.Meta) string {
	for _, key := range callIDs {
		if id, ok := meta[key].(string); ok && len(id) <= longestCallID {
			return id
		}
	}
	return ""
}

// requestOf returns a request with the members that every method has.
func (f *Server) requestOf(v *httpRequest, req mcp.Request) (*request, error) {
	session, ok := req.GetSession().(*mcp.ServerSession)
	params, known := req.GetParams().(interface {
		GetMeta() map[string]any
		GetProgressToken() any
	})
	if !ok || !known || reflect.ValueOf(params).IsNil() {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "the method requires parameters"}
	}
	q := &request{httpRequest: v, face: f, session: session, meta: params.GetMeta(), token: params.GetProgressToken(), client: declaredBy(session)}
	q.sub = call.Submission{Caller: v.caller, Session: sessionName(session.ID()), CallID: callID(q.meta)}
	q.sub.Reason, _ = q.meta[reasonKey].(string)
	q.sub.ReasonBy = reasonBy
	q.sub.Peer = tool.Peer{LogLevel: f.Clients.logLevel(q)}
	return q, nil
}

// call answers tools/call.
func (f *Server) call(ctx context.Context, q *request, params *mcp.CallToolParamsRaw) (mcp.Result, error) {
	q.sub.Input, q.responses, q.state = argumentsOf(params.Arguments), params.InputResponses, params.RequestState
	names := f.catalog.names()
	name, named := names.Ours(params.Name)
	if !named || !f.catalog.shows(q.httpRequest, name, names) {
		return nil, q.unknown(ctx, name, params.Name)
	}
	q.sub.Tool = name
	if f.Arrive != nil {
		q.sub.PriorAnswer = f.Arrive(q.caller, q.sub.CallID, params.Name, q.sub.Input)
	}
	digest, err := q.sub.Digest()
	if err != nil {
		return nil, err
	}
	q.digest = digest
	return q.run(ctx)
}

// Announced returns the digest of the call that an agent's hook announces. wire is the tool's
// name on the wire. The digest is "" if the call is not valid.
func (f *Server) Announced(ctx context.Context, caller access.Caller, wire string, input []byte) string {
	name, named := f.catalog.names().Ours(wire)
	if _, offered := f.Offered(caller, name); !named || !offered {
		return ""
	}
	digest, err := f.Pipeline.CallDigest(ctx, call.Submission{Caller: caller, Tool: name, Input: input})
	if err != nil {
		return "" // the call is decided when it arrives
	}
	return digest
}

func argumentsOf(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// shows reports whether a tool is listed for the caller.
func (ct *catalog) shows(v *httpRequest, name string, names wirename.Table) bool {
	d, ok := ct.Offered(v.caller, name)
	return ok && ct.offers(d, names)
}

// unknown refuses and journals a call of a tool that is not listed for the caller. The message is
// independent of the cause. The pipeline would deny these calls, too; the hold refuses the call
// even if policy changes in between.
func (q *request) unknown(ctx context.Context, name, wire string) error {
	if q.sub.Tool = name; name == "" {
		q.sub.Tool = "mcp:" + wire // no tool can have this name
	}
	q.sub.Hold = func(context.Context) error {
		return reason.Errorf(reason.UnknownTool, "the tool was not listed for the caller")
	}
	_, _ = q.face.Pipeline.Call(ctx, q.sub, func(call.Event) {})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool: " + clipped(wire)}
}

// run makes the call in the mode that the client supports.
func (q *request) run(ctx context.Context) (mcp.Result, error) {
	select {
	case <-q.face.over:
		return q.notMade(reason.Errorf(reason.ShuttingDown, "the gateway is stopping"))
	default:
	}
	displayed, still, err := q.resumed()
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
	stay := resume.Stay{Limit: limitOf(q.httpRequest, q.client.name, q.face.Limits), Gone: gone, Leave: elsewhere.now, Immediate: w.delivers, Digest: q.digest}
	q.sub.Peer.Progress, q.sub.Peer.Log = w.progress, q.logger(ctx)
	q.sub.Peer.Takes, q.sub.Peer.Ask = q.client.takes, q.asker(ctx, elsewhere, asked)
	switch {
	case q.client.tasks:
		return q.runAsTask(ctx, w, stay)
	case inRounds:
		return q.runInRounds(ctx, w, stay, displayed, asked)
	}
	return q.runAtOnce(ctx, w, stay)
}

// runAtOnce makes the call for a client that waits for its end.
func (q *request) runAtOnce(ctx context.Context, w *watch, stay resume.Stay) (mcp.Result, error) {
	return q.ended(q.face.Calls.CallFor(ctx, q.sub, stay, w.observe))
}

// logger forwards the logs of an upstream server. The library drops levels that the client did not
// request. The request's context routes them to its stream.
func (q *request) logger(ctx context.Context) func(tool.LogLine) {
	return func(l tool.LogLine) {
		_ = q.session.Log(ctx, &mcp.LoggingMessageParams{Level: mcp.LoggingLevel(l.Level), Logger: l.Logger, Data: l.Data}) // a disconnected client receives nothing
	}
}

// noticeGone closes gone when a client with a session disconnects without cancelling; its call
// continues. It cancels the call of a client without sessions, and any call whose request the
// gateway itself ends. stop must be called.
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

// ended returns the result of a call that ended, or that exceeded the client's timeout.
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

// notMade returns the result of a call without an outcome.
func (q *request) notMade(err error) (mcp.Result, error) {
	if q.answer != nil {
		return nil, errorOf(q.failed(err))
	}
	return q.failed(err), nil
}

// failed returns the result of a call that was not decided or whose outcome cannot be returned.
func (q *request) failed(err error) *result {
	known := reason.Known(err, reason.Internal)
	if known.Code == reason.Internal {
		q.face.Log.Error("internal error in an MCP call", slog.String("tool", q.sub.Tool), slog.String("error", err.Error()))
		known = reason.Fault(err)
	}
	return refusal(known, callMeta{
		Proposal: known.Fields["proposal_id"], Approval: known.Fields["approval_id"], ExpiresAt: known.Fields["expires_at"],
	})
}
