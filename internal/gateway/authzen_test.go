package gateway

import (
	"io"
	"net/http"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/identity/login/logintest"
)

// TestEvaluationsFromTheConfiguration: a token of the gateway and a token of an issuer may
// request evaluations only about the configured subjects. The test uses the whole daemon, on
// the API listener and on the agents' listener.
func TestEvaluationsFromTheConfiguration(t *testing.T) {
	t.Parallel()
	provider := logintest.Start(t, "")
	cfg := testConfig(t)
	cfg.AllowedTools = []string{"echo"}
	cfg.Listen.Agents = "127.0.0.1:0"
	cfg.Evaluators = []config.Evaluator{{Caller: "user:local", Subjects: []string{"user:local"}}}
	cfg.OAuthIssuers = []config.OAuthIssuer{{
		Issuer: provider.Issuer(), Audience: "a", Algorithms: []string{"ES256"}, SubjectClaim: "sub", GroupsClaim: "groups", ScopesOfMembers: true,
		Members: []config.OAuthMember{{Subject: "s", ActsAs: "user:local", Scopes: []string{"access.evaluate_for"}}},
	}}
	d := start(t, cfg)
	made := must.Get(palyrav1connect.NewTokenServiceClient(d.client(), d.url()).CreateToken(t.Context(), &palyrav1.CreateTokenRequest{Name: "edge", Scopes: []string{"access.evaluate_for"}}))(t)
	k := provider.Key()
	vouched := k.Sign(map[string]any{"alg": k.Algorithm, "kid": k.ID, "typ": "at+jwt"}, map[string]any{"iss": provider.Issuer(), "sub": "s", "aud": "a", "exp": 4e9, "iat": 1e9})
	ask := func(base, bearer, subject string) string {
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/access/v1/evaluation", strings.NewReader(
			`{"subject":{"type":"user","id":"`+subject+`"},"action":{"name":"tools/call"},"resource":{"type":"tool","id":"echo"},"context":{"arguments":{"text":"x"}}}`)))(t)
		if bearer != "" {
			req.Header.Set("Authorization", "Bearer "+bearer)
		}
		client := http.DefaultClient
		if bearer == "" {
			client = d.client()
		}
		res := must.Get(client.Do(req))(t)
		defer res.Body.Close()
		return res.Status + " " + string(must.Get(io.ReadAll(res.Body))(t))
	}
	agents := "http://" + d.Agents
	for name, got := range map[string]string{"certificate": ask(d.url(), "", "local"), "token": ask(agents, made.GetText(), "local"), "issuer": ask(agents, vouched, "local")} {
		if got != `200 OK {"decision":true}` {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := ask(agents, vouched, "ann"); !strings.HasPrefix(got, "200") || !strings.Contains(got, `"decision":false`) {
		t.Errorf("who is not listed: %s", got)
	}
	if got := ask(agents, vouched[:len(vouched)-8]+"AAAAAAAA", "local"); !strings.HasPrefix(got, "401") {
		t.Errorf("a forged token: %s", got)
	}
	res := must.Get(http.Get(agents + "/.well-known/oauth-protected-resource/mcp"))(t)
	defer res.Body.Close()
	if text := string(must.Get(io.ReadAll(res.Body))(t)); !strings.Contains(text, `"authorization_servers":["`+provider.Issuer()+`"]`) || !strings.Contains(text, `"resource":"`+agents+`/mcp"`) {
		t.Errorf("metadata: %s", text)
	}
}
