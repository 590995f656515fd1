package server

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/reason"
	"palyra/internal/rejoin"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
	"palyra/internal/wirename"
)

// request is one tools/call.
type request struct {
	*visit
	face    *Face
	session *mcp.ServerSession
	params  *mcp.CallToolParamsRaw
	// client is what it declared, for this request where the revision has that.
	client declared
	sub    toolcall.Submission
	// digest is of what makes two calls the same.
	digest string
}

// declared is what a client says of itself.
type declared struct {
	name string
	// sessionless is true for the revisions without sessions, in which a server asks by
	// what it answers (MRTR).
	sessionless bool
	// form, url and tasks are ways of asking that it has.
	form, url, tasks bool
}

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
			d.url, d.form = e.URL != nil, e.Form != nil || e.URL == nil
		}
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

// call answers tools/call.
func (f *Face) call(ctx context.Context, v *visit, req mcp.Request) (mcp.Result, error) {
	session, ok := req.GetSession().(*mcp.ServerSession)
	params, known := req.GetParams().(*mcp.CallToolParamsRaw)
	if !ok || !known || params == nil {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "tools/call takes a name and arguments"}
	}
	q := &request{visit: v, face: f, session: session, params: params, client: declaredBy(session)}
	q.sub = toolcall.Submission{
		Caller: v.caller, Input: argumentsOf(params.Arguments), Session: sessionName(session.ID()), CallID: callID(params.Meta),
	}
	q.sub.Peer.Meta = params.Meta
	select {
	case <-f.over:
		return q.failed(reason.Errorf(reason.ShuttingDown, "the gateway is stopping")), nil
	default:
	}
	names := f.names()
	name, named := names.Ours(params.Name)
	if !named || !f.shows(v, name, names) {
		return nil, q.unknown(ctx, name)
	}
	q.sub.Tool = name
	if f.Arrive != nil {
		q.sub.Vouch = f.Arrive(v.caller, q.sub.CallID, params.Name, q.sub.Input)
	}
	digest, err := q.sub.Digest()
	if err != nil {
		return nil, err
	}
	q.digest = digest
	return q.run(ctx)
}

func argumentsOf(raw json.RawMessage) []byte {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// shows reports whether the caller is shown a tool.
func (f *Face) shows(v *visit, name string, names wirename.Table) bool {
	return slices.ContainsFunc(f.offered(v, names), func(d tool.Descriptor) bool { return d.Name == name })
}

// unknown refuses a call of a tool that the caller is not shown, in the same words
// whatever the cause, and has it journaled. The pipeline lets none of these through;
// should policy change in between, the hold does not.
func (q *request) unknown(ctx context.Context, name string) error {
	if q.sub.Tool = name; name == "" {
		q.sub.Tool = "mcp:" + q.params.Name // no tool has such a name
	}
	q.sub.Hold = func(context.Context) error {
		return reason.Errorf(reason.UnknownTool, "the caller was not shown the tool when it called")
	}
	_, _ = q.face.Pipeline.Call(ctx, q.sub, func(toolcall.Event) {})
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown tool: " + clipped(q.params.Name)}
}

// run makes the call in the way that the client has.
func (q *request) run(ctx context.Context) (mcp.Result, error) {
	told, err := q.resumed()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := q.watch(ctx)
	defer w.end()
	elsewhere, asked := newLeaving(), make(chan *inputs, 1)
	stay := rejoin.Stay{Limit: q.face.limitOf(q.visit, q.client.name), Gone: q.noticeGone(ctx, cancel), Leave: elsewhere.now}
	q.sub.Peer.Progress, q.sub.Peer.Elicit = w.progress, q.elicitor(ctx, elsewhere, asked)
	switch {
	case q.client.tasks:
		return q.runAsTask(ctx, w, stay)
	case q.client.sessionless && (q.client.url || q.client.form):
		return q.runInRounds(ctx, w, stay, told, asked)
	}
	return q.ended(q.face.Calls.CallFor(ctx, q.sub, stay, w.observe))
}

// noticeGone tells when the client went away without having cancelled the call: with
// sessions that is no order to end it. What the gateway itself cuts off ends.
func (q *request) noticeGone(ctx context.Context, cancel context.CancelCauseFunc) <-chan struct{} {
	gone := make(chan struct{})
	go func() {
		select {
		case <-ctx.Done():
			return
		case <-q.gone:
		}
		switch why := q.cut(); {
		case why != nil:
			cancel(why)
		case q.client.sessionless:
			cancel(reason.Errorf(reason.Cancelled, "the client closed the request"))
		default:
			close(gone)
		}
	}()
	return gone
}

// ended is the answer for a call that ended, or that the client's time ended for.
func (q *request) ended(o toolcall.Outcome, err error) (mcp.Result, error) {
	if err != nil {
		return q.failed(err), nil
	}
	return resultOf(o), nil
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
