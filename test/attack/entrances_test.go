//go:build linux

package attack

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
	"palyra/test/process"
)

// agentName is the agent of the hook over hooks.sock. The other entrances use the same agent.
const agentName = "claude-code"

const (
	// freeHere lets every call in a sandbox of the gateway run without approval.
	freeHere = `
@id("free-here") @reason("a test") @waives("approval: a test") permit(principal, action in Action::"tool.execute", resource)
when { context.egress.mode != "none" } unless { context has exec && (context.exec.env.contains("nothing") || context.exec.starts.contains("nothing")) };`
	// freeElsewhere lets every call that others run proceed without approval.
	freeElsewhere = `
@id("free-elsewhere") @reason("a test") @waives("approval: a test") permit(principal, action in Action::"tool.execute", resource)
when { context.sandbox.tier == "external" && context.sandbox.level == "none" && context.egress.mode == "none" };`
)

// entrances holds the clients for all entrances of one agent of local.
type entrances struct {
	*gateway
	// api is a client with the certificate of local; address is the URL of the API.
	api     *http.Client
	address string
	// agent is a client with a token of the agent, token is the id of the token, and credentials
	// is the directory of the agent's certificate.
	agent              *http.Client
	token, credentials string
}

// entrances creates an agent about which local may ask by AuthZEN.
func (g *gateway) entrances() *entrances {
	g.T.Helper()
	g.restart(func(config string) string {
		return config + "\n[[evaluators]]\ncaller = \"user:local\"\nsubjects = [\"agent:" + agentName + "\"]\n"
	})
	e := &entrances{gateway: g, credentials: g.newAgent(agentName)}
	if r := g.palyra("members", "consent", agentName); r.Code != 0 {
		g.T.Fatal(r.Err)
	}
	var token struct {
		Text string
		ID   string `json:"token_id"`
	}
	parse(g.T, g.palyra("tokens", "create", "mcp", "--for", "agent:"+agentName, "--scope", "tool.call", "-o", "json").Out, &token)
	bundle := g.bundle()
	e.address, e.token = "https://"+bundle.Address, token.ID
	e.api, e.agent = clientOver(g.T, bundle.ClientTLS(), ""), clientOver(g.T, anonymous(bundle), token.Text)
	return e
}

// upstream adds a server whose tool returns its request, with the canary in place of evil.
func (e *entrances) upstream(flags ...string) {
	e.T.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "library", Version: "1"}, nil)
	schema := map[string]any{"type": "object", "properties": map[string]any{"path": map[string]any{"type": "string"}}}
	s.AddTool(&mcp.Tool{Name: "echo", InputSchema: schema}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		text, err := json.Marshal([]any{r.Params.Meta, r.Params.Arguments})
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.ReplaceAll(string(text), evil, canary)}}}, err
	})
	site := httptest.NewServer(mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true}))
	e.T.Cleanup(func() {
		site.CloseClientConnections()
		site.Close()
	})
	if r := e.palyra(append([]string{"mcp", "add", "library", "--url", site.URL}, flags...)...); r.Code != 0 {
		e.T.Fatal(r.Err)
	}
}

// post sends a body and returns the answer.
func post(c *http.Client, url, body string) (*http.Response, string) {
	res, err := c.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return &http.Response{}, err.Error()
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return res, err.Error()
	}
	return res, string(text)
}

// hook announces a tool use of the agent, or its completion, and returns the decision.
func (e *entrances) hook(event, id, tool, input string) string {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", statedir.Hooks(e.State))
	}}}
	body := `{"session_id":"s1","cwd":"` + e.Workspace + `","hook_event_name":"` + event + `","tool_use_id":"` + id + `","tool_name":"` + tool + `","tool_input":` + input + `}`
	res, text := post(client, "http://localhost/hooks/v1/"+agentName, body)
	return res.Header.Get("Palyra-Decision") + " " + text
}

// evaluation returns an AuthZEN request about a call of the agent.
func evaluation(tool, input string) string {
	return `{"subject":{"type":"agent","id":"` + agentName + `"},"action":{"name":"tools/call"},"resource":{"type":"tool","id":"` + tool + `"},"context":{"arguments":` + input + `}}`
}

// authzen sends an AuthZEN request for a call of the agent.
func (e *entrances) authzen(tool, input string) string {
	_, text := post(e.api, e.address+"/access/v1/evaluation", evaluation(tool, input))
	return text
}

// mcp makes a call of the agent by MCP.
func (e *entrances) mcp(tool string, meta mcp.Meta, input string) string {
	client := mcp.NewClient(&mcp.Implementation{Name: "attacker", Version: "1"}, nil)
	transport := &mcp.StreamableClientTransport{Endpoint: e.address + "/mcp", HTTPClient: e.agent}
	session, err := client.Connect(e.T.Context(), transport, nil)
	if err != nil {
		return err.Error()
	}
	defer session.Close()
	r, err := session.CallTool(e.T.Context(), &mcp.CallToolParams{Name: tool, Meta: meta, Arguments: json.RawMessage(input)})
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// clientOver returns a client of the API, which sends a token if one is given.
func clientOver(t *testing.T, config *tls.Config, token string) *http.Client {
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: withToken{token, transport}}
}

type withToken struct {
	token string
	http.RoundTripper
}

func (b withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != "" {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+b.token)
	}
	return b.RoundTripper.RoundTrip(r)
}

// call makes a call of the agent by the API.
func (e *entrances) call(tool, input string) string {
	r := e.palyra("--credentials", e.credentials, "call", tool, "--input", input, "-o", "json")
	return r.Out + r.Err
}

// answering makes a call and answers every approval request until the call ends.
func (g *gateway) answering(call func() string, flags ...string) string {
	g.T.Helper()
	ended := make(chan string, 1)
	go func() { ended <- call() }()
	var result string
	must.Eventually(g.T, "the call ends", func() (bool, string) {
		select {
		case result = <-ended:
			return true, ""
		default:
		}
		g.answerAll(flags...)
		return false, "it goes on"
	})
	return result
}

// answerAll answers the pending approvals and returns their number.
func (g *gateway) answerAll(flags ...string) (n int) {
	g.T.Helper()
	for line := range strings.Lines(g.palyra("approvals", "list", "-o", "ndjson").Out) {
		var a struct {
			ID     string `json:"approval_id"`
			Digest string `json:"call_digest"`
		}
		parse(g.T, line, &a)
		g.answer(process.Ask{ID: a.ID, Digest: a.Digest}, flags...)
		n++
	}
	return n
}

// denying makes a call and denies every approval request.
func (g *gateway) denying(call func() string) string {
	g.T.Helper()
	return g.answering(call, "--deny", "--reason", "no")
}
