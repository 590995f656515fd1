//go:build unix

package upstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/call"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/change"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/upstream"
	"palyra/internal/exec/upstream/declared"
	"palyra/internal/exec/workspace"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/store/sqlite"
	"palyra/internal/store/sqlite/sqlitetest"
)

// operator adds the servers.
var operator = gatewaytest.Person(policytest.Alice, access.RoleOwner)

// letsAll is a policy under which calls of upstream servers run without an approval.
const letsAll = `@id("test.upstreams") @reason("a test") @waives("approval: a test")
permit(principal, action in Action::"tool.execute", resource) when { context.egress.mode != "none" };`

// world is a gateway with upstream servers whose programs are functions of the test.
type world struct {
	*gatewaytest.Gateway
	*upstream.Manager

	t      *testing.T
	db     *sqlite.DB
	engine *policy.Engine
	runner *runner
	config upstream.Config
	source string
	stop   func()
}

// Rebuild rebuilds the policies with the current tools.
func (w *world) Rebuild(context.Context, string) error {
	o := policytest.Options{Policies: w.source}
	o.Tools = w.Router.Descriptors()
	set, err := policy.Load(policytest.Config(o))
	if err != nil {
		return err
	}
	w.engine.Swap(set)
	return nil
}

func newWorld(t *testing.T, options ...func(*upstream.Config)) *world {
	t.Helper()
	db := sqlitetest.Open(t)
	w := &world{t: t, db: db, engine: policytest.Engine(t, policytest.Options{Policies: letsAll}), runner: &runner{}, source: letsAll}
	w.Gateway = gatewaytest.New(t, gatewaytest.Config{DB: db, Engine: w.engine, Notary: gatewaytest.Notary(t)})
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	w.config = upstream.Config{
		Guard:    change.Unguarded,
		Standing: func(c access.Caller) error { return w.Standing(c) },
		Store:    sqlite.NewUpstreams(db), Router: w.Router, Policies: w, Runner: w.runner, Enabled: true, Empty: dir,
		Workspaces: must.Get(workspace.NewSet(nil))(t), Version: "test", Log: slog.New(slog.DiscardHandler),
	}
	for _, c := range options {
		c(&w.config)
	}
	w.start()
	return w
}

// start creates the manager, like a start of the daemon.
func (w *world) start() {
	w.t.Helper()
	w.Manager = upstream.New(w.config)
	w.Serve(w.Pipeline)
	must.Do(w.t, w.Load(w.t.Context()))
	must.Do(w.t, w.Rebuild(w.t.Context(), ""))
	w.stop = must.Run(w.t, w.Manager.Run)
}

// stale reports whether a server announced changes since its last inspection.
func (w *world) stale(name string) bool { return w.Stale(name) }

// until waits for an asynchronous condition.
func until(t *testing.T, is func() bool) {
	t.Helper()
	must.Eventually(t, "it happens", func() (bool, string) { return is(), "" })
}

// add adds a server that is a program of the test.
func (w *world) add(name string, program func(*conversation), change ...func(*declared.Server)) declared.State {
	w.t.Helper()
	w.runner.set(name, program)
	s := declared.Server{Name: name, Command: []string{"true", name}}
	for _, c := range change {
		c(&s)
	}
	return must.Get(w.Add(w.t.Context(), operator, s))(w.t)
}

// call calls a tool as the agent.
func (w *world) call(name, input string) (tool.Report, error) {
	return w.callAs(gatewaytest.Agent, name, input, tool.Peer{})
}

func (w *world) callAs(c access.Caller, name, input string, peer tool.Peer) (tool.Report, error) {
	w.t.Helper()
	out, err := w.Call(w.t.Context(), call.Submission{Caller: c, Tool: name, Input: []byte(input), Peer: peer}, func(call.Event) {})
	return out.Report, err
}

// works calls a tool and fails the test unless it succeeds.
func (w *world) works(name, input string) tool.Report {
	w.t.Helper()
	r, err := w.call(name, input)
	if err != nil || r.Outcome != tool.Succeeded {
		w.t.Fatalf("%s: %v, %s %s %s", name, err, r.Outcome, r.Reason, r.Message)
	}
	return r
}

// fails calls a tool and requires it to fail for a reason.
func (w *world) fails(name, input string, want reason.Code) tool.Report {
	w.t.Helper()
	r, err := w.call(name, input)
	got := reason.Code(r.Reason)
	if err != nil {
		got = reason.Of(err)
		r.Message = err.Error()
	}
	if got != want {
		w.t.Fatalf("%s: %v, %s %s %s; want %s", name, err, r.Outcome, r.Reason, r.Message, want)
	}
	return r
}

// runner is a sandbox whose programs are functions. It claims Tier C.
type runner struct {
	mu sync.Mutex
	// programs are keyed by the second word of the command line.
	programs map[string]func(*conversation)
	specs    []sandbox.Spec
	// unscrubbed makes the sandbox ignore its scrubbing request.
	unscrubbed bool
}

func (r *runner) set(name string, program func(*conversation)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.programs == nil {
		r.programs = map[string]func(*conversation){}
	}
	r.programs[name] = program
}

// started returns the number of started programs.
func (r *runner) started() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.specs)
}

func (*runner) Status() sandbox.Status {
	return sandbox.Status{Available: true, Tier: sandbox.TierC, Rung: sandbox.Full, Layers: []string{"a"}, Requested: []string{"a"}}
}

func (r *runner) Probe(context.Context) sandbox.Status { return r.Status() }

func (*runner) Examine(context.Context) []sandbox.Examination { return nil }

// Run runs a function as a program.
func (r *runner) Run(ctx context.Context, s sandbox.Spec) (sandbox.Report, error) {
	r.mu.Lock()
	program, unscrubbed := r.programs[s.Argv[1]], r.unscrubbed
	r.specs = append(r.specs, s)
	r.mu.Unlock()
	report := sandbox.Report{Tier: sandbox.TierC, Rung: sandbox.Full, Applied: []string{"a"}, Requested: []string{"a"}, Started: time.Now(), Backend: "functions"}
	report.Isolation = tool.Isolation{Measured: tool.Measured{UID: 1000}, HelperSHA: digest, ArgumentsSHA: digest}
	if program == nil {
		return sandbox.Report{}, reason.Errorf(reason.SpawnFailed, "there is no such program")
	}
	in, err := dup(s.Session.Stdin)
	if err != nil { // the caller that started the program has left
		return sandbox.Report{}, reason.Errorf(reason.Cancelled, "the start was cancelled")
	}
	c := &conversation{in: in, ctx: ctx, env: s.Pairs(), out: func(b []byte) { s.Output("stdout", b) }, err: func(b []byte) { s.Output("stderr", b) }}
	if s.Scrub != nil && !unscrubbed {
		from, to := io.Pipe()
		c.out = func(b []byte) { _, _ = to.Write(b) }
		scrubbed := make(chan struct{})
		go func() {
			defer close(scrubbed)
			_, _ = io.Copy(writer(func(b []byte) { s.Output("stdout", b) }), s.Scrub(from))
		}()
		defer func() { to.Close(); <-scrubbed }()
	}
	s.Session.Started(sandbox.Underway{Report: report, Wrote: func() (bool, error) { return false, nil }})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		program(c)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
		in.Close()
		<-ended
		return report, reason.Errorf(reason.Cancelled, "the call was cancelled and its program stopped")
	}
	in.Close()
	code := c.code
	report.ExitCode = &code
	return report, nil
}

const digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000"

// conversation contains the streams of a program.
type conversation struct {
	in   io.ReadCloser
	out  func([]byte)
	err  func([]byte)
	ctx  context.Context
	code int
	// env is the program's environment.
	env []string
}

// writer adapts a function to an io.Writer.
type writer func([]byte)

func (w writer) Write(b []byte) (int, error) {
	w(slices.Clone(b))
	return len(b), nil
}

// Write implements io.Writer.
func (c *conversation) Write(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	c.out(slices.Clone(b))
	return len(b), nil
}

// Close implements io.Closer.
func (c *conversation) Close() error { return nil }

// serve is an honest server: it has the tool hello, and the tools that a test adds.
func serve(change ...func(*mcp.Server)) func(*conversation) {
	return func(c *conversation) {
		s := mcp.NewServer(&mcp.Implementation{Name: "honest", Version: "1"}, &mcp.ServerOptions{Instructions: "Say hello first.", Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{ListChanged: true}}})
		hello(s)
		for _, add := range change {
			add(s)
		}
		session, err := s.Connect(c.ctx, &mcp.IOTransport{Reader: c.in, Writer: c}, nil)
		if err == nil {
			_ = session.Wait()
		}
	}
}

func hello(s *mcp.Server) {
	add(s, "hello", "Says hello.", func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		var in struct{ Name string }
		if err := json.Unmarshal(r.Params.Arguments, &in); err != nil {
			return nil, err
		}
		return text("hello " + in.Name), nil
	})
}

// add adds a tool with arbitrary input.
func add(s *mcp.Server, name, description string, run mcp.ToolHandler) {
	s.AddTool(&mcp.Tool{
		Name: name, Description: description, InputSchema: json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}}}`),
	}, run)
}

func text(s string) *mcp.CallToolResult {
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: s}}}
}

// resultText returns the text of a result.
func resultText(t *testing.T, r tool.Report) string {
	t.Helper()
	var result struct{ Content []struct{ Text string } }
	must.Do(t, json.Unmarshal(r.Result, &result))
	if len(result.Content) == 0 {
		return ""
	}
	return result.Content[0].Text
}

var errNo = errors.New("no")

func format(v any) string { return fmt.Sprintf("%+v", v) }

// restart creates a new manager on the same store.
func (w *world) restart() {
	w.t.Helper()
	w.stop()
	w.start()
}

func (w *world) descriptor(name string) tool.Descriptor {
	w.t.Helper()
	for _, d := range w.Router.Descriptors() {
		if d.Name == name {
			return d
		}
	}
	w.t.Fatalf("tool %s not found", name)
	return tool.Descriptor{}
}

func (w *world) callIn(ctx context.Context, name, input string) (tool.Report, error) {
	out, err := w.Call(ctx, call.Submission{Caller: gatewaytest.Agent, Tool: name, Input: []byte(input)}, func(call.Event) {})
	return out.Report, err
}
