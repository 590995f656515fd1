package modeltest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/run/model/modeltest"
)

// post sends a body with every header that the APIs require.
func post(t *testing.T, url, body string) (status int, answer string) {
	t.Helper()
	req := must.Get(http.NewRequest(http.MethodPost, url, strings.NewReader(body)))(t)
	req.Header.Set("X-Api-Key", modeltest.Key)
	req.Header.Set("Authorization", "Bearer "+modeltest.Key)
	req.Header.Set("Anthropic-Version", "2023-06-01")
	res := must.Get(http.DefaultClient.Do(req))(t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(t)
	return res.StatusCode, string(text)
}

// TestAnthropicRefuses sends requests that the API refuses. Each is the first body with one
// change.
func TestAnthropicRefuses(t *testing.T) {
	t.Parallel()
	const good = `{"model":"m","max_tokens":9,"stream":true,"tools":[{"name":"a_b","input_schema":{"type":"object"}}],"messages":[` +
		`{"role":"user","content":[{"type":"text","text":"Hi"}]},` +
		`{"role":"assistant","content":[{"type":"tool_use","id":"t1","name":"a_b","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1"},{"type":"text","text":"So?"}]}]}`
	server := modeltest.Anthropic(t, modeltest.File("text"))
	for change, want := range map[string]string{
		`"model":"m",=>`:                               "model: field required",
		`"max_tokens":9=>"x":9`:                        "max_tokens",
		`"stream":true=>"x":1`:                         "stream",
		`"a_b","input_s=>"a.b","input_s`:               "should match pattern",
		`{"type":"object"}=>{}`:                        "type object",
		`"role":"assistant"=>"role":"user"`:            "roles must alternate",
		`"text":"Hi"=>"text":" "`:                      "non-whitespace",
		`"id":"t1"=>"id":"t2"`:                         "must have a tool_use in the previous message",
		`"input":{}}=>"input":[]}`:                     "must be an object",
		`{"type":"tool_result","tool_use_id":"t1"},=>`: "without tool_result",
		`{"type":"tool_result","tool_use_id":"t1"},{"type":"text","text":"So?"}=>{"type":"text","text":"So?"},{"type":"tool_result","tool_use_id":"t1"}`: "must come first",
		`{"model"=>["model"`: "not JSON",
	} {
		refuses(t, server.URL+"/v1/messages", good, change, want)
	}
	if status, answer := post(t, server.URL+"/v1/messages", good); status != http.StatusOK {
		t.Errorf("the unchanged body: %d %s", status, answer)
	}
}

func TestOpenAIRefuses(t *testing.T) {
	t.Parallel()
	const good = `{"model":"m","stream":true,"tools":[{"type":"function","function":{"name":"a_b","parameters":{"type":"object"}}}],"messages":[` +
		`{"role":"system","content":"Be."},{"role":"user","content":"Hi"},` +
		`{"role":"assistant","tool_calls":[{"id":"t1","type":"function","function":{"name":"a_b","arguments":"{}"}}]},` +
		`{"role":"tool","tool_call_id":"t1","content":""},{"role":"user","content":"So?"}]}`
	server := modeltest.OpenAI(t, modeltest.File("text"))
	for change, want := range map[string]string{
		`"model":"m",=>`:                                      "model parameter",
		`"stream":true=>"x":1`:                                "stream",
		`"a_b","parameters=>"a.b","parameters`:                "should match pattern",
		`"tool_call_id":"t1"=>"tool_call_id":"t2"`:            "not found in 'tool_calls'",
		`{"role":"tool","tool_call_id":"t1","content":""},=>`: "must be followed by tool messages",
		`"arguments":"{}"=>"arguments":{}`:                    "must be a string",
		`"content":"Hi"=>"content":""`:                        "content is required",
	} {
		refuses(t, server.URL+"/chat/completions", good, change, want)
	}
	if status, answer := post(t, server.URL+"/chat/completions", good); status != http.StatusOK {
		t.Errorf("the unchanged body: %d %s", status, answer)
	}
}

func refuses(t *testing.T, url, good, change, want string) {
	t.Helper()
	from, to, _ := strings.Cut(change, "=>")
	if !strings.Contains(good, from) {
		t.Fatalf("%s is not in the body", from)
	}
	if status, answer := post(t, url, strings.Replace(good, from, to, 1)); status != http.StatusBadRequest || !strings.Contains(answer, want) {
		t.Errorf("%s: %d %s, want %q", change, status, answer, want)
	}
}
