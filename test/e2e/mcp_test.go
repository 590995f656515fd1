//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// mcpRevisions lists the revisions that the gateway supports.
var mcpRevisions = []string{"2025-06-18", "2025-11-25", "2026-07-28"}

// mcpGateway is a gateway with a listener for agents, an agent with a token, and an operator
// who answers its approvals.
type mcpGateway struct {
	*gateway
	url, token string
	operator   *client
}

var agentsLine = regexp.MustCompile(`palyrad is ready".* agents=(\S+)`)

func startMCP(t *testing.T, settings ...string) *mcpGateway {
	t.Helper()
	return startMCPWith(t, "", settings...)
}

// startMCPWith is startMCP with a line at the top of the configuration.
func startMCPWith(t *testing.T, top string, settings ...string) *mcpGateway {
	t.Helper()
	g := &mcpGateway{gateway: newGateway(t, settings...)}
	text := string(must.Get(os.ReadFile(g.Config))(t))
	g.write(g.Config, top+"\n"+strings.Replace(text, "metrics = \"\"\n", "metrics = \"\"\nagents = \"127.0.0.1:0\"\n", 1))
	g.policy("short.cedar", short)
	g.Start()
	m := agentsLine.FindStringSubmatch(g.Log().String())
	if m == nil {
		t.Fatalf("no listener for agents:\n%s", g.Log())
	}
	g.url = "http://" + m[1] + "/mcp"
	g.operator = g.add("olga", "--role", "operator")
	g.add("coder", "--owner", "local", "--role", "agent")
	r := process.Finish(t, g.local().command("tokens", "create", "mcp", "--for", "agent:coder", "--scope", "tool.call", "-o", "json"))
	r.Want(t, 0)
	g.token = decode[struct {
		Text string `json:"text"`
	}](t, r.Out).Text
	return g
}

// waiting returns the pending approvals.
func (g *mcpGateway) waiting() []process.Ask {
	g.T.Helper()
	var asks []process.Ask
	for line := range strings.Lines(g.operator.ok("approvals", "list", "-o", "ndjson")) {
		a := decode[struct {
			ID     string `json:"approval_id"`
			Digest string `json:"call_digest"`
		}](g.T, line)
		asks = append(asks, process.Ask{ID: a.ID, Digest: a.Digest})
	}
	return asks
}

// one waits until exactly one approval is pending.
func (g *mcpGateway) one() process.Ask {
	g.T.Helper()
	var asks []process.Ask
	must.Eventually(g.T, "one approval waits", func() (bool, string) {
		asks = g.waiting()
		return len(asks) == 1, fmt.Sprint(asks)
	})
	return asks[0]
}

// answer waits for one approval and answers it.
func (g *mcpGateway) answer(allow bool) process.Ask {
	g.T.Helper()
	ask := g.one()
	if allow {
		g.operator.allow(ask).Want(g.T, 0)
	} else {
		g.operator.deny(ask).Want(g.T, 0)
	}
	return ask
}

// agent is an MCP client of any kind that suite can drive.
type agent interface {
	list(t *testing.T) []string
	// begin calls a tool; cancel cancels the call.
	begin(name string, arguments map[string]any) (done <-chan outcome, cancel func())
	// nextProgress waits for a progress notification.
	nextProgress(t *testing.T) string
}

// outcome is the result of a call as its client received it.
type outcome struct {
	err     string
	isError bool
	text    string
	meta    map[string]string
}

// suite runs an agent through everything that a client can encounter.
func (g *mcpGateway) suite(t *testing.T, a agent) {
	call := func(name string, arguments map[string]any) outcome {
		done, _ := a.begin(name, arguments)
		return <-done
	}
	if got := a.list(t); !strings.Contains(" "+strings.Join(got, " ")+" ", " fs_read ") || !strings.Contains(" "+strings.Join(got, " ")+" ", " fs_write ") {
		t.Errorf("listed %v", got)
	}
	if o := call("fs_read", map[string]any{"path": "a.txt"}); o.err != "" || o.isError || !strings.Contains(o.text, "hello") || o.meta["attestation_id"] == "" {
		t.Errorf("allowed: %+v", o)
	}
	if o := call("fs_read", map[string]any{"path": "../state/palyra.db"}); o.err != "" || !o.isError || o.meta["reason"] == "" || !strings.Contains(o.text, "Next: ") {
		t.Errorf("refused: %+v", o)
	}

	write := func(name string) map[string]any { return map[string]any{"path": name, "content": "new\n"} }
	done, _ := a.begin("fs_write", write("yes.txt"))
	if says := a.nextProgress(t); !strings.Contains(says, "palyra approve ") {
		t.Errorf("heard %q", says)
	}
	ask := g.answer(true)
	if o := <-done; o.err != "" || o.isError || o.meta["approval_id"] != ask.ID || g.Read("yes.txt") != "new\n" {
		t.Errorf("approved: %+v", o)
	}
	must.Do(t, os.Remove(filepath.Join(g.Workspace, "yes.txt")))

	done, _ = a.begin("fs_write", write("no.txt"))
	g.answer(false)
	if o := <-done; o.err != "" || !o.isError || o.meta["reason"] != "APPROVAL_DENIED" || !strings.Contains(o.text, "not today") || g.Read("no.txt") != "" {
		t.Errorf("denied: %+v", o)
	}

	_, cancel := a.begin("fs_write", write("cancelled.txt"))
	gone := g.one()
	cancel()
	must.Eventually(g.T, "no approval waits", func() (bool, string) {
		asks := g.waiting()
		return len(asks) == 0, fmt.Sprint(asks)
	})
	if got := g.operator.approval(gone.ID).State; !strings.Contains(strings.ToLower(got), "cancelled") {
		t.Errorf("the approval of a cancelled call is %s", got)
	}

	if o := call("fs_write", write("late.txt")); o.meta["reason"] != "APPROVAL_EXPIRED" && o.meta["reason"] != "STILL_WAITING" || g.Read("late.txt") != "" {
		t.Errorf("not answered: %+v", o)
	}
}

// short is a policy with the shortest timeout for approvals of late.txt.
const short = `@id("short") @timeout("30s")
forbid(principal, action == Action::"tool.execute/fs.write", resource)
when { context.args has path && context.args.path == "late.txt" } unless { context.approval.granted };
`

// goAgent is a client of the official Go SDK.
type goAgent struct {
	session  *mcp.ClientSession
	progress chan string
	n        int
}

type bearing struct {
	token string
	http.RoundTripper
}

func (b bearing) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

func (g *mcpGateway) goAgent(t *testing.T, revision string, transport mcp.Transport) *goAgent {
	t.Helper()
	a := &goAgent{progress: make(chan string, 64)}
	client := mcp.NewClient(&mcp.Implementation{Name: "go-test", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{},
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			a.progress <- r.Params.Message
		},
	})
	a.session = must.Get(client.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: revision}))(t)
	t.Cleanup(func() { _ = a.session.Close() })
	return a
}

func (g *mcpGateway) overHTTP() mcp.Transport {
	return &mcp.StreamableClientTransport{Endpoint: g.url, HTTPClient: &http.Client{Transport: bearing{g.token, http.DefaultTransport}}}
}

// shim runs `palyra mcp serve` with the agent's credential.
func (g *mcpGateway) shim() *exec.Cmd {
	c := &client{g: g.gateway, credentials: filepath.Join(g.Dir, "coder")}
	return c.command("mcp", "serve", "--call-limit", "40s")
}

// TestServeWithAToken: `palyra mcp serve` acts as the agent whose token is in PALYRA_TOKEN,
// although the operator's own credential exists. Control: without the token, it acts as the
// operator.
func TestServeWithAToken(t *testing.T) {
	t.Parallel()
	g := startMCP(t)
	for _, c := range []struct{ token, actor string }{{g.token, "agent:coder"}, {"", "user:local"}} {
		cmd := g.local().command("mcp", "serve")
		cmd.Env = append(cmd.Env, "PALYRA_TOKEN="+c.token)
		a := g.goAgent(t, "", &mcp.CommandTransport{Command: cmd})
		must.Get(a.session.CallTool(t.Context(), &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}}))(t)
		events := strings.Split(strings.TrimSpace(g.local().ok("journal", "list", "--code", "PAL-D100", "-o", "ndjson")), "\n")
		if last := events[len(events)-1]; !strings.Contains(last, `"actor":"`+c.actor+`"`) {
			t.Errorf("with token %t: %s", c.token != "", last)
		}
	}
}

func (a *goAgent) list(t *testing.T) (names []string) {
	for _, tool := range must.Get(a.session.ListTools(t.Context(), nil))(t).Tools {
		names = append(names, tool.Name)
	}
	return names
}

func (a *goAgent) nextProgress(t *testing.T) string {
	t.Helper()
	return must.Receive(t, "progress", a.progress)
}

func (a *goAgent) begin(name string, arguments map[string]any) (<-chan outcome, func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan outcome, 1)
	a.n++
	params := &mcp.CallToolParams{Meta: mcp.Meta{"progressToken": fmt.Sprint("p", a.n)}, Name: name, Arguments: arguments}
	go func() {
		r, err := a.session.CallTool(ctx, params)
		if err != nil {
			done <- outcome{err: err.Error()}
			return
		}
		text, _ := json.Marshal(r)
		done <- outcomeOf(text)
	}()
	return done, cancel
}

// outcomeOf parses a result of tools/call.
func outcomeOf(text []byte) outcome {
	var r struct {
		Meta    map[string]json.RawMessage `json:"_meta"`
		IsError bool                       `json:"isError"`
		Content []struct{ Text string }    `json:"content"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return outcome{err: err.Error()}
	}
	o := outcome{isError: r.IsError}
	for _, c := range r.Content {
		o.text += c.Text + "\n"
	}
	_ = json.Unmarshal(r.Meta["palyra.dev/call"], &o.meta)
	return o
}

func TestMCPGo(t *testing.T) {
	t.Parallel()
	for _, revision := range mcpRevisions {
		for _, over := range []string{"http", "stdio"} {
			t.Run(revision+"/"+over, func(t *testing.T) {
				t.Parallel()
				g := startMCP(t)
				g.T = t
				transport := g.overHTTP()
				if over == "stdio" {
					transport = &mcp.CommandTransport{Command: g.shim()}
				}
				g.suite(t, g.goAgent(t, revision, transport))
			})
		}
	}
}

// tsAgent is the official TypeScript client in a separate process.
type tsAgent struct {
	t        *testing.T
	in       io.Writer
	progress chan string
	elicited chan string

	mu      sync.Mutex
	n       int
	waiting map[int]chan json.RawMessage
}

// typescript returns the directory in which `make test` installs the client.
func typescript(t *testing.T) string {
	dir := must.Get(filepath.Abs(filepath.Join(repository, ".tools", "typescript")))(t)
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		t.Fatalf("the TypeScript client of MCP is missing (%v); `make test` installs it", err)
	}
	return dir
}

func (g *mcpGateway) tsAgent(t *testing.T, config map[string]any) *tsAgent {
	t.Helper()
	dir := typescript(t)
	// Node searches for packages in the script's directory.
	script := filepath.Join(dir, "client.mjs")
	must.Do(t, os.WriteFile(script, must.Get(os.ReadFile("typescript/client.mjs"))(t), 0o600))
	node := must.Get(filepath.Abs(filepath.Join(repository, ".tools", "node", "bin", "node")))(t)
	cmd := exec.CommandContext(t.Context(), node, script, string(must.Get(json.Marshal(config))(t)))
	cmd.Dir, cmd.Env = dir, process.Environment(g.Dir)
	in, out := must.Get(cmd.StdinPipe())(t), must.Get(cmd.StdoutPipe())(t)
	cmd.Stderr = os.Stderr
	a := &tsAgent{t: t, in: in, progress: make(chan string, 64), elicited: make(chan string, 8), waiting: map[int]chan json.RawMessage{}}
	must.Do(t, cmd.Start())
	connected := make(chan string, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		a.read(out, connected)
	}()
	t.Cleanup(func() {
		_ = in.Close()
		<-read
		_ = cmd.Wait()
	})
	if name := <-connected; name != "palyra" {
		t.Fatalf("connected to %q", name)
	}
	return a
}

func (a *tsAgent) read(out io.Reader, connected chan<- string) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 8<<20)
	for lines.Scan() {
		var said struct {
			Connected, Failed *string
			Elicited          *struct{ URL string }
			ID                int
			Done              bool
			Progress          *struct{ Message string }
		}
		text := json.RawMessage(append([]byte(nil), lines.Bytes()...))
		if err := json.Unmarshal(text, &said); err != nil {
			continue
		}
		switch {
		case said.Connected != nil:
			connected <- *said.Connected
		case said.Failed != nil:
			connected <- *said.Failed
		case said.Elicited != nil:
			a.elicited <- said.Elicited.URL
		case said.Progress != nil:
			a.progress <- said.Progress.Message
		case said.Done:
			a.mu.Lock()
			a.waiting[said.ID] <- text
			a.mu.Unlock()
		}
	}
}

// act sends an instruction to the process.
func (a *tsAgent) act(what map[string]any) (id int, done <-chan json.RawMessage) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n++
	answer := make(chan json.RawMessage, 1)
	what["id"], a.waiting[a.n] = a.n, answer
	text, err := json.Marshal(what)
	if err == nil {
		_, err = a.in.Write(append(text, '\n'))
	}
	must.Check(a.t, err)
	return a.n, answer
}

func (a *tsAgent) list(t *testing.T) []string {
	_, done := a.act(map[string]any{"do": "list"})
	return decode[struct{ Tools []string }](t, string(<-done)).Tools
}

func (a *tsAgent) nextProgress(t *testing.T) string {
	t.Helper()
	return (&goAgent{progress: a.progress}).nextProgress(t)
}

func (a *tsAgent) begin(name string, arguments map[string]any) (<-chan outcome, func()) {
	id, answer := a.act(map[string]any{"do": "call", "name": name, "arguments": arguments})
	done := make(chan outcome, 1)
	go func() {
		var said struct {
			Error  string
			Result json.RawMessage
		}
		if err := json.Unmarshal(<-answer, &said); err != nil || said.Error != "" {
			done <- outcome{err: said.Error}
			return
		}
		done <- outcomeOf(said.Result)
	}()
	return done, func() { a.act(map[string]any{"do": "cancel", "call": id}) }
}

func TestMCPTypeScript(t *testing.T) {
	t.Parallel()
	for _, revision := range mcpRevisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			g := startMCP(t)
			g.T = t
			g.suite(t, g.tsAgent(t, map[string]any{"revision": revision, "url": g.url, "token": g.token}))
		})
	}
	t.Run("stdio", func(t *testing.T) {
		t.Parallel()
		g := startMCP(t)
		g.T = t
		shim := g.shim()
		env := map[string]string{}
		for _, one := range shim.Env {
			name, value, _ := strings.Cut(one, "=")
			env[name] = value
		}
		g.suite(t, g.tsAgent(t, map[string]any{"revision": "2025-11-25", "command": shim.Path, "args": shim.Args[1:], "env": env}))
	})
}

// TestMCPTypeScriptApprovalLink: the TypeScript client displays the link of an approval.
// Whatever the client answers, the call continues after a person approved it.
func TestMCPTypeScriptApprovalLink(t *testing.T) {
	t.Parallel()
	for _, revision := range mcpRevisions {
		t.Run(revision, func(t *testing.T) {
			t.Parallel()
			g := startMCP(t)
			a := g.tsAgent(t, map[string]any{"revision": revision, "url": g.url, "token": g.token, "url_elicitation": true, "answer": "decline"})
			done, _ := a.begin("fs_write", map[string]any{"path": "asked.txt", "content": "new\n"})
			link := <-a.elicited
			res := must.Get(http.Get(link))(t)
			page := string(must.Get(io.ReadAll(res.Body))(t))
			_ = res.Body.Close()
			if g.Read("asked.txt") != "" {
				t.Error("it was written before anybody answered")
			}
			if ask := g.answer(true); res.StatusCode != http.StatusOK || !strings.Contains(page, "palyra approve "+ask.ID) || !strings.HasSuffix(link, ask.ID) {
				t.Errorf("%s: %d %s", link, res.StatusCode, page)
			}
			if o := <-done; o.err != "" || o.isError || g.Read("asked.txt") != "new\n" {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Open streams of clients do not delay a stop, and calls that wait for approval stay pending.
func TestMCPStop(t *testing.T) {
	t.Parallel()
	g := startMCPWith(t, `stop_timeout = "1h"`)
	a := g.goAgent(t, "2025-11-25", g.overHTTP()) // this client keeps a stream open
	a.list(t)
	done, _ := a.begin("fs_write", map[string]any{"path": "b.txt", "content": "new\n"})
	a.nextProgress(t)
	ask := g.waiting()[0]
	began := time.Now()
	g.Stop()
	// A running call would delay the stop for stop_timeout.
	if took := time.Since(began); took > must.Patience {
		t.Errorf("the stop took %s", took)
	}
	if o := <-done; o.err == "" && o.meta["reason"] != "SHUTTING_DOWN" {
		t.Errorf("the call that waited: %+v", o)
	}
	g.Start()
	if got := g.operator.approval(ask.ID).State; !strings.Contains(strings.ToLower(got), "pending") {
		t.Errorf("the approval is %s", got)
	}
}
