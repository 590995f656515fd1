//go:build linux || darwin

package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/statedir"
	"palyra/internal/identity"
	"palyra/internal/surface/api"
	"palyra/internal/surface/hook"
)

// hooked is a daemon with an agent that has a token for its hook.
type hooked struct {
	*running
	cfg   *config.Config
	ws    string
	token string
}

func startHooked(t *testing.T) *hooked {
	t.Helper()
	cfg := shortState(t, testConfig(t))
	ws := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	cfg.Listen.Agents = "127.0.0.1:0"
	public := filepath.Join(filepath.Dir(cfg.StateDir), "run")
	must.Do(t, os.Mkdir(public, 0o755))
	cfg.Listen.Hooks = filepath.Join(public, "hooks.sock")
	plenty := config.RateLimit{PerSecond: 10_000, Burst: 10_000} // no request of these tests is refused by a rate limit
	cfg.RateLimits.Read, cfg.RateLimits.Mutate, cfg.RateLimits.Decide, cfg.RateLimits.ToolCall, cfg.RateLimits.Run, cfg.RateLimits.Secret = plenty, plenty, plenty, plenty, plenty, plenty
	cfg.Workspaces = []config.Workspace{{Name: "here", Path: ws}}
	h := &hooked{running: start(t, cfg), cfg: cfg, ws: ws}
	must.Get(AddOperator(t.Context(), cfg, NewOperator{
		Name: "claude", Roles: []access.Role{access.RoleAgent}, Owner: access.User("local"), Dir: filepath.Join(t.TempDir(), "claude"),
	}))(t)
	must.Get(palyrav1connect.NewAccessServiceClient(h.client(), h.url()).ConsentToAgent(t.Context(), &palyrav1.ConsentToAgentRequest{Agent: "claude"}))(t)
	h.token = must.Get(palyrav1connect.NewTokenServiceClient(h.client(), h.url()).CreateToken(t.Context(), &palyrav1.CreateTokenRequest{
		Name: "hook", Principal: "agent:claude", Scopes: []string{"hook.report"},
	}))(t).GetText()
	return h
}

// before returns a PreToolUse request of Claude Code's hook.
func (h *hooked) before(id, file string) string {
	return `{"session_id":"s1","cwd":"` + h.ws + `","hook_event_name":"PreToolUse","tool_name":"Read","tool_use_id":"` + id + `","tool_input":{"file_path":"` + filepath.Join(h.ws, file) + `"}}`
}

// over returns a client of the hook socket.
func (h *hooked) over(t *testing.T) *http.Client { return through(t, statedir.Hooks(h.cfg.StateDir)) }

// shared returns a client of the hook socket for agents of several users.
func (h *hooked) shared(t *testing.T) *http.Client { return through(t, h.cfg.Listen.Hooks) }

func through(t *testing.T, socket string) *http.Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// flipped returns two other hexadecimal digits.
func flipped(two string) string {
	if two == "00" {
		return "01"
	}
	return "00"
}

// post sends a body and returns the status, the decision and the body of the response.
func post(t *testing.T, c *http.Client, at, token, body string) (int, string, string) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(body)))(t)
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res := must.Get(c.Do(r))(t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(t)
	return res.StatusCode, res.Header.Get(hook.DecisionHeader), string(text)
}

// TestHooksOfADaemon: hooks are served on the agents' port where the system reports the user of
// a connection, and on the socket. Other listeners do not serve them.
func TestHooksOfADaemon(t *testing.T) {
	t.Parallel()
	h := startHooked(t)
	port, socket := "http://"+h.Addresses.Agents+"/hooks/v1/claude-code", socketURL+"/hooks/v1/claude-code"
	if status, decision, body := post(t, h.over(t), socket, h.token, h.before("t1", "a")); status != 200 || decision != "allow" {
		t.Errorf("by the socket: %d %s %s", status, decision, body)
	}
	if status, decision, body := post(t, h.over(t), socket, "", h.before("t9", "a")); status != 401 || decision != "" {
		t.Errorf("without a token, and no agent of that name: %d %s %s", status, decision, body)
	}
	must.Get(AddOperator(t.Context(), h.cfg, NewOperator{
		Name: "codex", Roles: []access.Role{access.RoleAgent}, Owner: access.User("local"), Dir: filepath.Join(t.TempDir(), "codex"),
	}))(t)
	must.Get(palyrav1connect.NewAccessServiceClient(h.client(), h.url()).ConsentToAgent(t.Context(), &palyrav1.ConsentToAgentRequest{Agent: "codex"}))(t)
	if status, decision, body := post(t, h.over(t), socketURL+"/hooks/v1/codex", "", strings.Replace(h.before("t1", "a"), `"Read"`, `"update_plan"`, 1)); status != 200 || decision != "allow" || body != "" {
		t.Errorf("without a token, as the operator's agent of that name: %d %s %s", status, decision, body)
	}
	if status, decision, body := post(t, h.shared(t), socketURL+"/hooks/v1/codex", "", strings.Replace(h.before("t8", "a"), `"Read"`, `"update_plan"`, 1)); status != 401 || decision != "" {
		t.Errorf("the same by the socket of several users, where nobody speaks for it without a token: %d %s %s", status, decision, body)
	}
	if status, decision, body := post(t, h.shared(t), socket, h.token, h.before("t7", "a")); status != 200 || decision != "allow" {
		t.Errorf("by the socket of several users: %d %s %s", status, decision, body)
	}
	status, decision, body := post(t, http.DefaultClient, port, h.token, h.before("t2", "a"))
	if want := runtime.GOOS == "linux"; (status == 200 && decision == "allow") != want {
		t.Errorf("by the port: %d %s %s", status, decision, body)
	}
	for name, c := range map[string]struct {
		client          *http.Client
		at, token, body string
	}{
		"no token on the port":      {http.DefaultClient, port, "", h.before("t3", "a")},
		"no token, no hook, shared": {h.shared(t), socketURL + "/access/v1/evaluation", "", "{}"},
		"the API, shared":           {h.shared(t), socketURL + "/palyra.v1.ApprovalsService/ListApprovals", "", "{}"},
		"no token, no hook":         {h.over(t), socketURL + "/access/v1/evaluation", "", "{}"},
		"a wrong token":             {h.over(t), socket, h.token[:len(h.token)-2] + flipped(h.token[len(h.token)-2:]), h.before("t3", "a")},
		"TLS":                       {h.client(), h.url() + "/hooks/v1/claude-code", "", h.before("t3", "a")},
		"the operator's socket":     {overSocket(t, h.cfg), socket, "", h.before("t3", "a")},
		"garbage":                   {h.over(t), socket, h.token, "{"},
		"the same member twice":     {h.over(t), socket, h.token, `{"session_id":"s","session_id":"t","hook_event_name":"PreToolUse"}`},
		"another agent":             {h.over(t), socketURL + "/hooks/v1/copilot", h.token, h.before("t3", "a")},
		"too much":                  {h.over(t), socket, h.token, h.before("t3", "a") + strings.Repeat(" ", hook.MaxBody)},
	} {
		if status, decision, body := post(t, c.client, c.at, c.token, c.body); status < 400 || decision != "" {
			t.Errorf("%s: %d %s %s", name, status, decision, body)
		}
	}
	h.end()
	if _, err := os.Lstat(statedir.Hooks(h.cfg.StateDir)); err == nil {
		t.Error("the socket is left when palyrad has stopped")
	}
}

// TestStolenHookToken lists everything that a hook's token permits, by trying every method and
// route on every listener. The token also permits the calls that need no credential.
func TestStolenHookToken(t *testing.T) {
	t.Parallel()
	h := startHooked(t)
	socket := h.over(t)
	root := must.Get(identity.ReadBundle(h.Credentials))(t)
	transport := &http.Transport{TLSClientConfig: identity.Bundle{Root: root.Root, ServerName: root.ServerName, Token: h.token}.ClientTLS(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	bare := &http.Client{Transport: transport}
	if can := usable(t, h, bare, socket, h.token); !slices.Equal(can, []string{"hooks of claude-code", "hooks of codex", "hooks of generic"}) {
		t.Errorf("with a hook's token one can use %q", can)
	}
	// Control: a token with other scopes permits other calls, and no hooks.
	more := must.Get(palyrav1connect.NewTokenServiceClient(h.client(), h.url()).CreateToken(t.Context(), &palyrav1.CreateTokenRequest{
		Name: "more", Principal: "agent:claude", Scopes: []string{"tool.list", "tool.call"},
	}))(t).GetText()
	can := usable(t, h, bare, socket, more)
	if !slices.Contains(can, "/palyra.v1.GatewayService/ListTools") || !slices.Contains(can, "/palyra.v1.GatewayService/CallTool") || slices.Contains(can, "hooks of codex") {
		t.Errorf("the control: %q", can)
	}
}

// usable lists the methods and routes that a token alone permits.
func usable(t *testing.T, h *hooked, bare, socket *http.Client, token string) (can []string) {
	t.Helper()
	// forms are empty requests of the two content types. Streams return errors in their body.
	forms := map[string]string{"application/json": "{}", "application/connect+json": "\x00\x00\x00\x00\x02{}"}
	try := func(name string, c *http.Client, at string) {
		for form, body := range forms {
			r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(body)))(t)
			r.Header.Set("Content-Type", form)
			r.Header.Set("Authorization", "Bearer "+token)
			res, err := c.Do(r)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			part := make([]byte, 256)
			n, _ := io.ReadAtLeast(res.Body, part, 1)
			must.Check(t, res.Body.Close())
			text := string(part[:n])
			refused := strings.Contains(text, "permission_denied") || strings.Contains(text, "unauthenticated")
			if !refused && res.StatusCode != http.StatusNotFound && res.StatusCode != http.StatusUnsupportedMediaType {
				can = append(can, name)
			}
		}
	}
	for procedure, row := range api.Methods() {
		if row.Needs == api.NeedsNothing {
			continue
		}
		try(procedure, bare, h.url()+procedure)
		try(procedure+" on the socket", socket, socketURL+procedure)
		try(procedure+" on the port", http.DefaultClient, "http://"+h.Addresses.Agents+procedure)
	}
	for _, agent := range hook.Agents {
		try("hooks of "+agent.Name, socket, socketURL+"/hooks/v1/"+agent.Name)
		try("hooks of "+agent.Name+" over TLS", bare, h.url()+"/hooks/v1/"+agent.Name)
	}
	for pattern, row := range api.Routes() {
		_, path, _ := strings.Cut(pattern, " ")
		if row.Guard != nil && row.Guard.Needs < api.NeedsSignature && pattern != hook.Pattern {
			try(pattern, bare, h.url()+path)
			try(pattern+" on the socket", socket, socketURL+path)
		}
	}
	slices.Sort(can)
	return slices.Compact(can)
}
