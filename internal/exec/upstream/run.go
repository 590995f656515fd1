package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/commitgate"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/oauth"
	"palyra/internal/exec/workspace/overlay"
)

// Backoff after failures of a server: the wait doubles from the shortest to the longest.
const (
	shortestWait = time.Second
	longestWait  = time.Minute
)

// run makes a decided call.
func (t proxied) run(ctx context.Context, c tool.Call, l launch) tool.Report {
	m := t.manager
	report := newReport(m.use.Version)
	report.Egress.Allowed = hosts(c.Plan)
	// A rejected token is renewed once. A call that was refused because of its token did not run.
	answer, err := t.attempt(ctx, c, l, report, 0)
	var rejected *rejectedError
	if errors.As(err, &rejected) {
		answer, err = t.attempt(ctx, c, l, report, rejected.version)
	}
	if errors.As(err, &rejected) {
		return failed(ctx, report, rejected.why)
	}
	return answer
}

// rejectedError reports that the server rejected a version of the gateway's login.
type rejectedError struct {
	version int
	why     error
}

func (e *rejectedError) Error() string { return e.why.Error() }

// attempt makes a decided call with the current login, unless its version is the rejected one.
// Its only error is a rejectedError.
func (t proxied) attempt(ctx context.Context, c tool.Call, l launch, report tool.Report, rejected int) (tool.Report, error) {
	lent, end, err := t.manager.launcher.lend(ctx, c, &l, rejected)
	defer end()
	if err != nil {
		return failed(ctx, report, err), nil
	}
	answer, err := t.made(ctx, c, l, lent, report)
	if oauth.IsRejected(err) && len(l.token) > 0 {
		return answer, &rejectedError{l.token[0].Version, err}
	}
	return answer, nil
}

// made makes a call with the secrets lent to it. The report includes the error.
func (t proxied) made(ctx context.Context, c tool.Call, l launch, lent []egress.Secret, report tool.Report) (done tool.Report, err error) {
	m, started := t.manager, report.StartedAt
	in, leave, err := m.Pool.enter(ctx, c, l, lent)
	if err != nil {
		return failed(ctx, report, err), err
	}
	defer leave()
	defer func() { done = in.handed.clean(done) }()
	defer in.till.open(lent)()
	if err := t.current(ctx, in); err != nil {
		return failed(ctx, report, err), err
	}
	result, err := t.call(ctx, c, in)
	in.describe(&report, started)
	if err != nil {
		err = in.unavailable(err)
		in.doubt(err)
	}
	changed, err := settle(ctx, c, in, m.use.History, err)
	report.Changes, report.Files = changed.Record, changed.Files
	if err != nil {
		return failed(ctx, report, err), err
	}
	report.Outcome, report.Result = tool.Succeeded, result
	return report.Finish(), nil
}

// newReport returns the report of a call that starts now.
func newReport(version string) tool.Report {
	return tool.Begin(tool.ExecutorInfo{Name: tool.MCPUpstream, Version: version, Tier: "builtin"})
}

// settle passes the workspace changes of a call to the commit gate. A server that wrote is ended
// first, so that it cannot write during an approval. The next call starts it on the current
// workspace.
func settle(ctx context.Context, c tool.Call, in *instance, history overlay.History, err error) (commitgate.Outcome, error) {
	if !in.process.wroteSince() {
		return commitgate.Outcome{}, err
	}
	in.close(errWrote)
	w := commitgate.Work{
		Call: c, Layer: in.process.final.Layer, Workspace: in.server.Workspace, By: "the upstream server " + in.server.Name, ExitCode: in.process.final.ExitCode, History: history,
		Judge: in.handed.judge,
	}
	defer in.discard()
	// A refusal by the sandbox takes precedence over the state of the context.
	return commitgate.Settle(ctx, w, err)
}

var errWrote = errors.New("the server wrote to its workspace")

func hosts(p tool.Plan) []string {
	if p.Facts.EgressHosts == nil {
		return []string{}
	}
	return p.Facts.EgressHosts
}

// mostStarts is how often one call starts a server that exits before the call reaches it.
const mostStarts = 3

// current inspects a server that was not inspected yet or announced changes. It returns an error
// if the tool of the call is not approved in its current form.
func (t proxied) current(ctx context.Context, in *instance) error {
	catalog := t.manager.catalog
	k, err := catalog.find(t.server.Name)
	if err != nil {
		return err
	}
	if !in.looked() || k.stale {
		if err := catalog.examine(ctx, in, in.owner.String()); err != nil {
			return in.unavailable(err)
		}
	}
	return t.Unusable()
}

// mostRounds is how often a server may send requests before it answers one call.
const mostRounds = 10

// call forwards the call and returns its result in canonical form. A server of a newer revision
// sends its requests in the response, and receives the answers when the call is repeated.
func (t proxied) call(ctx context.Context, c tool.Call, in *instance) (json.RawMessage, error) {
	token := ulid.Make().String()
	defer in.calls.add(token, c)()
	if in.process != nil {
		in.process.pipe.begin()
	}
	in.logFrom(ctx, c.Peer.LogLevel)
	ask := t.ask
	if ask == nil {
		ask = t.callTool
	}
	input, given, err := t.takeMeta(c.Proposal.Input)
	if err != nil {
		return nil, err
	}
	sent := sending{in: in, input: input}
	for range mostRounds {
		// The _meta of the caller is not forwarded: it was not decided, displayed or recorded.
		// The _meta keys that a server declares are an argument.
		sent.meta = mcp.Meta{"progressToken": token}
		maps.Copy(sent.meta, given)
		if sessionless(in.session) {
			sent.meta[mcp.MetaKeyClientCapabilities] = capabilitiesOf(c.Peer)
			if level := c.Peer.LogLevel; level != "" {
				sent.meta[mcp.MetaKeyLogLevel] = level
			}
		}
		got, err := ask(context.WithValue(ctx, callKey{}, c), sent)
		if err != nil {
			return nil, refusedBy(err)
		}
		if got.requests == nil {
			return resultOf(got.result)
		}
		if len(got.requests) == 0 {
			return nil, reason.Errorf(reason.UpstreamUnavailable, "the upstream server %s is busy and asks for a later call", t.server.Name)
		}
		if sent.responses, err = t.manager.asker.ask(ctx, in, c, got.requests); err != nil {
			return nil, refusedBy(err)
		}
		sent.state = got.state
	}
	return nil, reason.Errorf(reason.ToolFailed, "the upstream server %s sent %d requests without a result", t.server.Name, mostRounds)
}

// sending is the request to a server in one round; got is its response.
type sending struct {
	in        *instance
	input     json.RawMessage
	meta      mcp.Meta
	responses mcp.InputResponseMap
	state     string
}

type got struct {
	result any
	// requests are the server's requests, nil if there are none.
	requests mcp.InputRequestMap
	state    string
}

// callTool calls a tool of the server.
func (t proxied) callTool(ctx context.Context, s sending) (got, error) {
	r, err := s.in.session.CallTool(ctx, &mcp.CallToolParams{
		Meta: s.meta, Name: t.name, Arguments: s.input, InputResponses: s.responses, RequestState: s.state,
	})
	if err != nil {
		return got{}, err
	}
	return got{r, r.InputRequests, r.RequestState}, nil
}

// sessionless reports whether the server of a session uses a revision without sessions.
func sessionless(s *mcp.ClientSession) bool {
	r := s.InitializeResult()
	return r != nil && r.ProtocolVersion >= firstSessionless
}

// firstSessionless is the first revision without sessions.
const firstSessionless = "2026-07-28"

// refusedBy returns the error for an error response of a server.
func refusedBy(err error) error {
	var known *reason.Error
	var fault *jsonrpc.Error
	if errors.As(err, &known) {
		return err // the transport reports the cause
	}
	if errors.As(err, &fault) {
		// The error wraps the fault, which the report includes as well (see failed).
		return reason.Errorf(reason.ToolFailed, "the upstream server refused the call: %s (%d)%w", clean(fault.Message, 1000), fault.Code, silent{fault})
	}
	return err
}

// silent wraps an error without its text.
type silent struct{ error }

func (silent) Error() string { return "" }

// Unwrap returns the wrapped error.
func (s silent) Unwrap() error { return s.error }

// resultOf returns the result for the caller: the content and structured content from the server,
// without the keys reserved for the gateway.
func resultOf(r any) (json.RawMessage, error) {
	if exact, err := canonical.Marshal(r); err == nil && !bytes.Contains(exact, []byte(`_meta`)) {
		return exact, nil // nothing to strip
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	var result map[string]any
	if err := json.Unmarshal(text, &result); err != nil {
		return nil, err
	}
	unwrapContent(result)
	strip(result, declared.ReservedMeta)
	exact, err := canonical.Marshal(result)
	if err != nil {
		return nil, reason.Errorf(reason.ToolFailed, "the result of the upstream server has no canonical form: %w", err)
	}
	return exact, nil
}

// describe adds the instance and its connections since the given time to a report.
func (in *instance) describe(r *tool.Report, since time.Time) {
	r.Executor.Instance = in.id
	if in.process == nil {
		if log := in.remote.connections; log != nil {
			r.Egress.Observed, r.Egress.Missed = log.Since(since)
		}
		return
	}
	known := in.process.underway.Report
	if connections := in.process.underway.Connections; connections != nil {
		var all []tool.Connection
		all, r.Egress.Missed = connections()
		for _, one := range all {
			if one.Count > 0 || known.Started.Add(one.Started+one.Duration).After(since) {
				r.Egress.Observed = append(r.Egress.Observed, one)
			}
		}
	}
	known.DescribeIsolation(r, egress.Strict)
}

// failed completes a report with an error, including the error response of the server.
func failed(ctx context.Context, r tool.Report, err error) tool.Report {
	r, why := r.Because(ctx, err)
	errorFields := map[string]any{"reason": why.Reason, "message": why.Message, "remedy": why.Remedy}
	var fault *jsonrpc.Error
	if errors.As(err, &fault) && why.Reason == reason.ToolFailed {
		errorFields["rpc"] = rpcOf(fault)
	}
	r.Result, _ = canonical.Marshal(map[string]any{"error": errorFields})
	return r.Finish()
}

// mostFault is the maximum size of the data that a server may add to an error.
const mostFault = 16 << 10

// rpcOf returns the error of a server, without the keys reserved for the gateway.
func rpcOf(fault *jsonrpc.Error) map[string]any {
	errorFields := map[string]any{"code": fault.Code, "message": clean(fault.Message, 1000)}
	var data map[string]any
	if len(fault.Data) <= mostFault && json.Unmarshal(fault.Data, &data) == nil && data != nil {
		strip(data, declared.ReservedMeta)
		errorFields["data"] = data
	}
	return errorFields
}
