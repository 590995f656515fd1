package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/committing"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/upstream/oauth"
	"palyra/internal/vault"
)

// Backoff of a server that fails: the wait doubles from the shortest to the longest.
const (
	shortestWait = time.Second
	longestWait  = time.Minute
)

// run makes a decided call.
func (t proxied) run(ctx context.Context, c tool.Call, l launch) tool.Report {
	m := t.manager
	report := m.report()
	report.Egress.Allowed = hosts(c.Plan)
	// A token that the server does not take is renewed, once. A call that was refused
	// for it did not run.
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

// rejectedError says that the server did not take a version of the gateway's login.
type rejectedError struct {
	version int
	why     error
}

func (e *rejectedError) Error() string { return e.why.Error() }

// attempt makes a decided call with the login that there is, unless its version is
// rejected. It fails with a rejectedError alone.
func (t proxied) attempt(ctx context.Context, c tool.Call, l launch, report tool.Report, rejected int) (tool.Report, error) {
	lent, end, err := t.manager.lend(ctx, c, &l, rejected)
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

// made makes a call with what was lent to it. The error is in the report, too.
func (t proxied) made(ctx context.Context, c tool.Call, l launch, lent []egress.Secret, report tool.Report) (done tool.Report, err error) {
	m, started := t.manager, report.StartedAt
	in, leave, err := m.enter(ctx, c, l, lent)
	if err != nil {
		return failed(ctx, report, err), err
	}
	defer leave()
	defer func() { done = in.handed.clean(done) }()
	defer in.till.open(lent)()
	if err := m.current(ctx, in, t); err != nil {
		return failed(ctx, report, err), err
	}
	result, err := t.call(ctx, c, in)
	in.describe(&report, started)
	if err != nil {
		err = in.unavailable(err)
		in.doubt(err)
	}
	changed, err := m.settle(ctx, c, in, err)
	report.Changes, report.Files = changed.Record, changed.Files
	if err != nil {
		return failed(ctx, report, err), err
	}
	report.Outcome, report.Result = tool.Succeeded, result
	return report.Finish(), nil
}

// report is what is known before a call runs.
func (m *Manager) report() tool.Report {
	return tool.Report{
		Executor:    tool.ExecutorInfo{Name: tool.MCPUpstream, Version: m.use.Version, Tier: "builtin"},
		Enforcement: tool.Unenforced(),
		Egress:      tool.Egress{Mode: egress.Strict.String(), Allowed: []string{}, Observed: []tool.Connection{}},
		StartedAt:   time.Now().UTC(),
	}
}

// settle takes what a call wrote to the workspace to the commit gate. A server that
// wrote is ended for that: nothing of it may write on while people look, and the next
// call starts it on the workspace as it is then.
func (m *Manager) settle(ctx context.Context, c tool.Call, in *instance, err error) (committing.Outcome, error) {
	if !in.wroteSince() {
		return committing.Outcome{}, err
	}
	in.close(errWrote)
	w := committing.Work{
		Call: c, Layer: in.final.Layer, Workspace: in.server.Workspace, By: "the upstream server " + in.server.Name, ExitCode: in.final.ExitCode, History: m.use.History,
		Judge: in.handed.judge,
	}
	defer in.discard()
	// What the sandbox says comes before the state of the context.
	return committing.Settle(ctx, w, err)
}

var errWrote = errors.New("the server wrote to its workspace")

func hosts(p tool.Plan) []string {
	if p.Facts.EgressHosts == nil {
		return []string{}
	}
	return p.Facts.EgressHosts
}

// lend borrows the secrets of a call, and the token of its login, which it notes in l.
// end has to be called whatever comes of it.
func (m *Manager) lend(ctx context.Context, c tool.Call, l *launch, rejected int) (lent []egress.Secret, end func(), err error) {
	back := func() {}
	if len(l.secrets) > 0 {
		lent, back = m.use.Lender.Lend(c, l.secrets)
	}
	if l.login == (vault.Ref{}) {
		return lent, back, nil
	}
	login, err := m.use.Logins.Use(ctx, c.Proposal.Caller, l.server, c.Proposal.ID, rejected)
	if err != nil {
		return lent, back, err
	}
	l.token = []egress.Secret{login.Token}
	return append(lent, login.Token), func() {
		back()
		if err := login.End(ctx); err != nil {
			m.use.Log.ErrorContext(ctx, "the end of a lease was not journaled", slog.String("upstream", l.server.Name), slog.Any("error", err))
		}
	}, nil
}

// enter gets the call an instance: the one that there is, or a new one, about which
// people are asked if it gets secrets. leave has to be called. A server that may write
// gets one call at a time.
func (m *Manager) enter(ctx context.Context, c tool.Call, l launch, lent []egress.Secret) (in *instance, leave func(), err error) {
	for range mostStarts {
		in, leave, err = m.enterBy(ctx, l, func(s *slot) (*instance, error) { return m.fill(ctx, s, l, lent) })
		if !errors.Is(err, errUnstarted) {
			return in, leave, err
		}
		if err := m.askToStart(ctx, c, l); err != nil {
			return nil, nil, err
		}
	}
	return nil, nil, unstarted(l.server.Name)
}

// mostStarts is how often one call has a server started whose end comes before its turn.
const mostStarts = 3

// enterBy gets an instance of a slot, which fill looks for or makes.
func (m *Manager) enterBy(ctx context.Context, l launch, fill func(*slot) (*instance, error)) (in *instance, leave func(), err error) {
	s, err := m.slot(slotKey{l.server.Name, l.owner})
	if err != nil {
		return nil, nil, err
	}
	select {
	case s.held <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	in, err = fill(s)
	if err != nil {
		<-s.held
		return nil, nil, err
	}
	in.begin()
	if l.mode == sandbox.CopyOnWrite {
		return in, func() { in.done(); <-s.held }, nil
	}
	<-s.held
	return in, in.done, nil
}

func (m *Manager) slot(k slotKey) (*slot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, reason.Errorf(reason.ShuttingDown, "the gateway is stopping")
	}
	s, ok := m.slots[k]
	if !ok {
		if len(m.slots) >= mostInstances {
			m.forget()
		}
		if len(m.slots) >= mostInstances {
			return nil, reason.Errorf(reason.RateLimited, "%d instances of upstream servers are in use, which is the most", mostInstances).
				WithRemedy("Try again when others end, or mark servers that may be as shared.")
		}
		s = &slot{held: make(chan struct{}, 1), asking: make(chan struct{}, 1)}
		m.slots[k] = s
	}
	return s, nil
}

// forget gives up slots without an instance. The caller holds m.mu.
func (m *Manager) forget() {
	for k, s := range m.slots {
		select {
		case s.held <- struct{}{}:
			if s.instance == nil && time.Now().After(s.until) {
				delete(m.slots, k)
			}
			<-s.held
		default:
		}
	}
}

// fill puts an instance into a slot that the caller holds, unless a good one is there.
func (m *Manager) fill(ctx context.Context, s *slot, l launch, lent []egress.Secret) (*instance, error) {
	if in := s.instance; in != nil {
		if s.good(l) {
			return in, nil
		}
		s.set(nil)
		if in.died() {
			m.failed(s, l.server.Name, in.unavailable(errors.New("it ended")))
		}
		in.retire()
	}
	if wait := time.Until(s.until); wait > 0 {
		if s.last.Code == reason.SpawnFailed { // time alone brings no program
			return nil, s.last
		}
		return nil, reason.Errorf(reason.UpstreamUnavailable, "the upstream server %s failed %d times in a row and is tried again in %s: %s",
			l.server.Name, s.failures, wait.Round(time.Second/10), strings.TrimPrefix(s.last.Message, failedPrefix(l.server.Name))).WithField("retry_after", wait.Round(time.Second/10).String()).WithRemedy("%s", s.last.NextStep())
	}
	if len(l.injections) > 0 && l.handed == nil {
		return nil, errUnstarted
	}
	in, err := m.start(ctx, l, lent)
	if err != nil {
		// A server that wants a login is tried at once when there is one.
		if ctx.Err() == nil && reason.Of(err) != reason.UpstreamLogin {
			m.failed(s, l.server.Name, reason.Known(err, reason.UpstreamUnavailable))
		}
		return nil, err
	}
	s.set(in)
	// Who was reduced while it started had no instance yet that EndOf could end.
	if err := m.use.Standing(l.by); err != nil {
		m.kill(in)
		return nil, err
	}
	s.failures, s.last = 0, nil
	m.noted(l.server.Name, func(k *kept) { k.problem = nil })
	return in, nil
}

// failed has everybody wait before the server is tried again.
func (m *Manager) failed(s *slot, server string, why *reason.Error) {
	wait := min(shortestWait<<min(s.failures, 10), longestWait)
	s.failures++
	s.until, s.last = time.Now().Add(wait), why
	m.noted(server, func(k *kept) { k.problem = why })
}

// forgive lets a server be tried again at once. A slot that is in use forgives itself.
func (m *Manager) forgive(server string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, s := range m.slots {
		if k.server != server {
			continue
		}
		select {
		case s.held <- struct{}{}:
			s.failures, s.until = 0, time.Time{}
			<-s.held
		default:
		}
	}
}

// current looks at what the server says of itself, if it was not looked at yet or told
// of changes, and refuses a call of a tool that is not what was approved.
func (m *Manager) current(ctx context.Context, in *instance, t proxied) error {
	k, err := m.find(t.server.Name)
	if err != nil {
		return err
	}
	if !in.looked() || k.stale {
		if err := m.examine(ctx, in, in.owner.String()); err != nil {
			return in.unavailable(err)
		}
	}
	return t.Unusable()
}

// examine keeps what a server says of itself.
func (m *Manager) examine(ctx context.Context, in *instance, actor string) error {
	looking, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	if in.pipe != nil {
		in.pipe.begin()
	}
	seen, err := look(looking, in.session, in.server.Meta)
	if err != nil {
		return err
	}
	if err := m.saw(ctx, in.server.Name, seen, actor); err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.seen = !seen.Incomplete // the next call looks again for the rest
	return nil
}

// mostRounds is how often a server may ask before it answers one call.
const mostRounds = 10

// call passes the call on and returns its result in canonical form. A server of the
// newer revisions asks by what it answers: it gets the answers with the call again.
func (t proxied) call(ctx context.Context, c tool.Call, in *instance) (json.RawMessage, error) {
	token := ulid.Make().String()
	in.mu.Lock()
	in.calls[token] = &running{call: c}
	in.mu.Unlock()
	defer func() {
		in.mu.Lock()
		delete(in.calls, token)
		in.mu.Unlock()
	}()
	if in.pipe != nil {
		in.pipe.begin()
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
		// The _meta of the caller is not passed on: nothing has judged, shown or recorded it.
		// What a server declares of it is an argument.
		sent.meta = mcp.Meta{"progressToken": token}
		maps.Copy(sent.meta, given)
		if in.sessionless() {
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
			return nil, reason.Errorf(reason.UpstreamUnavailable, "the upstream server %s is busy, and wants the call later", t.server.Name)
		}
		if sent.responses, err = t.manager.ask(ctx, in, c, got.requests); err != nil {
			return nil, refusedBy(err)
		}
		sent.state = got.state
	}
	return nil, reason.Errorf(reason.ToolFailed, "the upstream server %s asked %d times, and answered nothing", t.server.Name, mostRounds)
}

// sending is what a server gets of a call in one round, and got what it answers.
type sending struct {
	in        *instance
	input     json.RawMessage
	meta      mcp.Meta
	responses mcp.InputResponseMap
	state     string
}

type got struct {
	result any
	// requests are nil unless the server asks.
	requests mcp.InputRequestMap
	state    string
}

// callTool is a call of a tool of the server's.
func (t proxied) callTool(ctx context.Context, s sending) (got, error) {
	r, err := s.in.session.CallTool(ctx, &mcp.CallToolParams{
		Meta: s.meta, Name: t.name, Arguments: s.input, InputResponses: s.responses, RequestState: s.state,
	})
	if err != nil {
		return got{}, err
	}
	return got{r, r.InputRequests, r.RequestState}, nil
}

// sessionless reports whether the server speaks a revision without sessions.
func (in *instance) sessionless() bool {
	r := in.session.InitializeResult()
	return r != nil && r.ProtocolVersion >= firstSessionless
}

// firstSessionless is the first revision without sessions.
const firstSessionless = "2026-07-28"

// refusedBy is the error of a server that answered with one.
func refusedBy(err error) error {
	var known *reason.Error
	var fault *jsonrpc.Error
	if errors.As(err, &known) {
		return err // the way to the server says what was wrong
	}
	if errors.As(err, &fault) {
		// It wraps the fault, which the report has, too (failed).
		return reason.Errorf(reason.ToolFailed, "the upstream server refused the call: %s (%d)%w", clean(fault.Message, 1000), fault.Code, silent{fault})
	}
	return err
}

// silent is an error without words.
type silent struct{ error }

func (silent) Error() string { return "" }

// Unwrap returns the error that has them.
func (s silent) Unwrap() error { return s.error }

// resultOf is the result that the caller gets: content and structured content as the
// server gave them, without what only the gateway may say.
func resultOf(r any) (json.RawMessage, error) {
	if exact, err := canonical.Marshal(r); err == nil && !bytes.Contains(exact, []byte(`_meta`)) {
		return exact, nil // there is nothing to strip
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
		return nil, reason.Errorf(reason.ToolFailed, "the result of the upstream server has no exact form: %w", err)
	}
	return exact, nil
}

// describe adds to a report what is known of the instance, and which connections it had
// since a moment.
func (in *instance) describe(r *tool.Report, since time.Time) {
	r.Executor.Instance = in.id
	switch {
	case in.pipe != nil && in.underway.Connections != nil:
		var all []tool.Connection
		all, r.Egress.Missed = in.underway.Connections()
		began := in.underway.Report.Started
		for _, one := range all {
			if one.Count > 0 || began.Add(one.Started+one.Duration).After(since) {
				r.Egress.Observed = append(r.Egress.Observed, one)
			}
		}
	case in.connections != nil:
		r.Egress.Observed, r.Egress.Missed = in.connections.Since(since)
	}
	if in.pipe == nil {
		return
	}
	known := in.underway.Report
	isolation := known.Isolation
	r.Isolation = &isolation
	r.Executor.Backend, r.Executor.Tier = known.Backend, string(known.Tier)
	r.Enforcement = known.Enforcement(egress.Strict)
}

// failed ends a report with an error and a result that says it, and what the server said.
func failed(ctx context.Context, r tool.Report, err error) tool.Report {
	r, why := r.Because(ctx, err)
	said := map[string]any{"reason": why.Reason, "message": why.Message, "remedy": why.Remedy}
	var fault *jsonrpc.Error
	if errors.As(err, &fault) && why.Reason == reason.ToolFailed {
		said["rpc"] = rpcOf(fault)
	}
	r.Result, _ = canonical.Marshal(map[string]any{"error": said})
	return r.Finish()
}

// mostFault bounds what a server may say with an error beside its message.
const mostFault = 16 << 10

// rpcOf is the error of a server, without what only the gateway may say.
func rpcOf(fault *jsonrpc.Error) map[string]any {
	said := map[string]any{"code": fault.Code, "message": clean(fault.Message, 1000)}
	var data map[string]any
	if len(fault.Data) <= mostFault && json.Unmarshal(fault.Data, &data) == nil && data != nil {
		strip(data, declared.ReservedMeta)
		said["data"] = data
	}
	return said
}
