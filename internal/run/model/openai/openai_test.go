package openai_test

import (
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run/model"
	"palyra/internal/run/model/modeltest"
	"palyra/internal/run/model/openai"
)

func open(endpoint model.Endpoint) (model.Provider, error) { return openai.New(endpoint) }

// Not parallel: the suite sets keys and proxies in the environment of the process.
func TestProvider(t *testing.T) { modeltest.Run(t, modeltest.OpenAI, open) }

// ask requests a turn from a local server that plays the fixtures and requires no key.
func ask(t *testing.T, change func(*model.Endpoint), fixtures ...modeltest.Fixture) (model.Turn, *modeltest.Heard, error) {
	t.Helper()
	endpoint := modeltest.Local(t, fixtures...).Endpoint()
	endpoint.Key = model.Key{}
	change(&endpoint)
	p := must.Get(openai.New(endpoint))(t)
	heard := &modeltest.Heard{}
	turn, err := p.Generate(t.Context(), modeltest.Conversation(), heard.Observe)
	return turn, heard, err
}

func asItIs(*model.Endpoint) {}

// TestLocalServers plays the known differences of llama.cpp, vLLM, Ollama and other servers
// from the API.
func TestLocalServers(t *testing.T) {
	t.Parallel()
	a, b := `fs.read {"path": "a.txt"}`, `fs.read {"path": "b.txt"}`
	for name, want := range map[string]struct {
		text  string
		calls []string
		stop  model.Stop
	}{
		"one-piece":     {calls: []string{a, b}, stop: model.ToolUse},
		"no-ids":        {calls: []string{a, b}, stop: model.ToolUse},
		"no-index":      {calls: []string{a, b}, stop: model.ToolUse},
		"same-ids":      {calls: []string{a, b}, stop: model.ToolUse},
		"name-repeated": {calls: []string{a}, stop: model.ToolUse},
		"usage-in-each": {text: "Hi there", stop: model.EndTurn},
		"no-usage":      {text: "Hello, world!", stop: model.EndTurn},
		"comments":      {text: "Still here.", stop: model.EndTurn},
	} {
		t.Run(name, func(t *testing.T) {
			turn, _, err := ask(t, asItIs, modeltest.File(name))
			must.Do(t, err)
			var calls []string
			ids := make(map[string]bool)
			for _, call := range turn.Calls {
				calls = append(calls, call.Tool+" "+string(call.Input))
				ids[call.ID] = true
			}
			if strings.Join(calls, "\n") != strings.Join(want.calls, "\n") || turn.Stop != want.stop || turn.Text != want.text {
				t.Errorf("%q, calls %q, %s", turn.Text, calls, turn.Stop)
			}
			if len(ids) != len(calls) || ids[""] {
				t.Errorf("ids are %v", ids)
			}
			if counted := name == "usage-in-each" || name == "comments"; turn.Usage.Estimated == counted || turn.Usage.InputTokens == 0 {
				t.Errorf("usage is %+v", turn.Usage)
			}
		})
	}
}

// TestEndlessCall: a call without an id, each part of which has a name, is not parsed from its
// start for each part.
func TestEndlessCall(t *testing.T) {
	t.Parallel()
	part := func(arguments string) string {
		return `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"name":"fs.read","arguments":"` + arguments + `"}}]}}]}` + "\n\n"
	}
	read := func(first string) time.Duration {
		raw := first + part(strings.Repeat("x", 1<<20)) + strings.Repeat(part("x"), 20_000) + part(`\"}`) +
			`data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
		began := time.Now()
		turn, _, err := ask(t, asItIs, modeltest.Raw(raw))
		if err != nil || len(turn.Calls) != 1 {
			t.Fatalf("%d calls, %v", len(turn.Calls), err)
		}
		return time.Since(began)
	}
	// Control: a call with an id takes about a second, more on a busy machine. Without an id it
	// would take minutes if each part were parsed from the start.
	first := part(`{\"path\":\"`)
	control := read(strings.Replace(first, `"index":0,"function"`, `"index":0,"id":"call-1","function"`, 1))
	if took := read(first); took > 20*control+10*time.Second {
		t.Errorf("it took %s, and the control %s", took, control)
	}
}

// TestBreakAfterTheEnd: a break after the end of the turn loses only the token counts.
func TestBreakAfterTheEnd(t *testing.T) {
	t.Parallel()
	turn, heard, err := ask(t, asItIs, modeltest.File("no-usage").Broken())
	if err != nil || turn.Text != "Hello, world!" || !turn.Usage.Estimated || len(heard.Retries) != 0 {
		t.Errorf("%+v, %v", turn, err)
	}
}

func TestContentFilter(t *testing.T) {
	t.Parallel()
	if turn, _, err := ask(t, asItIs, modeltest.File("content-filter")); err != nil || turn.Stop != model.Refusal || turn.Text != "Once" {
		t.Errorf("%+v, %v", turn, err)
	}
}

func TestErrorEvents(t *testing.T) {
	t.Parallel()
	_, heard, err := ask(t, asItIs, modeltest.File("error"), modeltest.File("error-llamacpp"))
	if reason.Of(err) != reason.ModelRejected || !strings.Contains(err.Error(), "context size") {
		t.Errorf("got %v", err)
	}
	if len(heard.Retries) != 1 || !strings.Contains(heard.Retries[0].Cause.Error(), "The server had an error") {
		t.Errorf("heard %+v", heard.Retries)
	}
}

func TestStalledStream(t *testing.T) {
	t.Parallel()
	// Two stalls take twice as long. The response after them must not stall on a busy machine.
	quick := func(e *model.Endpoint) { e.IdleTimeout = 2 * time.Second }
	turn, heard, err := ask(t, quick, modeltest.Raw("").Stalled(), modeltest.File("cut-in-call").Stalled(), modeltest.File("text"))
	if err != nil || turn.Text != "Hello, world!" || len(heard.Retries) != 2 || heard.Text != turn.Text {
		t.Errorf("%+v, %v, heard %+v", turn, err, heard)
	}
}

func TestNoKey(t *testing.T) {
	t.Parallel()
	server := modeltest.Local(t, modeltest.File("text"))
	endpoint := server.Endpoint()
	endpoint.Key = model.Key{}
	p := must.Get(openai.New(endpoint))(t)
	must.Get(p.Generate(t.Context(), modeltest.Conversation(), func(model.Event) {}))(t)
	request := server.Requests()[0]
	if got := request.Header.Get("Authorization"); got != "" {
		t.Errorf("sent %q without a key", got)
	}
	options, _ := request.JSON["stream_options"].(map[string]any)
	if options["include_usage"] != true {
		t.Errorf("the usage was not asked for: %s", request.Body)
	}
	if request.JSON["max_tokens"] != nil || request.JSON["max_completion_tokens"] != nil {
		t.Errorf("a bound that nobody set: %s", request.Body)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, e := range []model.Endpoint{{}, {Model: "m"}, {Model: "m", BaseURL: "nowhere"}} {
		if _, err := openai.New(e); reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("%+v: %v", e, err)
		}
	}
}
