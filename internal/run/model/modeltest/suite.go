package modeltest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run/model"
)

// Starter starts a server, as Anthropic and OpenAI do.
type Starter func(testing.TB, ...Fixture) *Server

// Opener returns the provider under test.
type Opener func(model.Endpoint) (model.Provider, error)

// Run tests the requirements for every provider that uses a server.
func Run(t *testing.T, start Starter, open Opener) {
	w := world{start, open}
	// First, because net/http reads the proxy variables only once.
	t.Run("environment", w.environment)
	t.Run("streams", w.streams)
	t.Run("turns", w.turns)
	t.Run("retries", w.retries)
	t.Run("rejections", w.rejections)
	t.Run("invalid", w.invalid)
	t.Run("limits", w.limits)
	t.Run("lies", w.lies)
	t.Run("cancel", w.cancel)
	t.Run("key", w.key)
	t.Run("lent key", w.lentKey)
	t.Run("request", w.request)
}

type world struct {
	start Starter
	open  Opener
}

// Heard has the events that a provider reported to its observer.
type Heard struct {
	// Text is the text without the deltas that retries discarded.
	Text    string
	Retries []model.Retry
}

// Observe records one event. It is an observer for Provider.Generate.
func (h *Heard) Observe(e model.Event) {
	if e.Retry != nil {
		h.Text = ""
		h.Retries = append(h.Retries, *e.Retry)
		return
	}
	h.Text += e.Delta.Text
}

// Conversation returns a conversation that every server accepts, with the tools fs.read, fs.write,
// fs.list and github/create_issue.
func Conversation() model.Request {
	schema := []byte(`{"type":"object","properties":{"path":{"type":"string"}}}`)
	r := model.Request{System: "You are careful.", Messages: []model.Message{{Role: model.User, Text: "Read the files."}}}
	for _, name := range []string{"fs.list", "fs.read", "fs.write", "github/create_issue"} {
		r.Tools = append(r.Tools, model.Tool{Name: name, Description: "Does " + name + ".", InputSchema: schema})
	}
	return r
}

// ask starts a server with the fixtures and requests one turn.
func (w world) ask(t *testing.T, fixtures ...Fixture) (model.Turn, *Heard, *Server, error) {
	t.Helper()
	server := w.start(t, fixtures...)
	p := must.Get(w.open(server.Endpoint()))(t)
	heard := &Heard{}
	turn, err := p.Generate(t.Context(), Conversation(), heard.Observe)
	return turn, heard, server, err
}

// streams plays the recorded streams that both formats have.
func (w world) streams(t *testing.T) {
	call := func(tool, input string) model.Call { return model.Call{Tool: tool, Input: []byte(input)} }
	for name, want := range map[string]model.Turn{
		"text":        {Text: "Hello, world!", Stop: model.EndTurn},
		"call":        {Text: "I will read it.", Stop: model.ToolUse, Calls: []model.Call{call("fs.read", `{"path": "README.md"}`)}},
		"parallel":    {Stop: model.ToolUse, Calls: []model.Call{call("fs.read", `{"path": "a.txt"}`), call("github/create_issue", `{"title": "x"}`)}},
		"empty-input": {Stop: model.ToolUse, Calls: []model.Call{call("fs.list", `{}`)}},
		"unicode":     {Text: "Grüße 👋 你", Stop: model.ToolUse, Calls: []model.Call{call("fs.read", `{"path": "äö\u00fc.md"}`)}},
		"unknown":     {Text: "Done.", Stop: model.EndTurn},
		"max-tokens":  {Text: "First", Stop: model.MaxTokens, Calls: []model.Call{call("fs.read", `{"path": "a.txt"}`)}},
		"refusal":     {Text: "I cannot help with that.", Stop: model.Refusal},
	} {
		t.Run(name, func(t *testing.T) {
			turn, heard, _, err := w.ask(t, File(name))
			must.Do(t, err)
			if heard.Text != turn.Text || len(heard.Retries) != 0 {
				t.Errorf("heard %q and %d retries, the turn says %q", heard.Text, len(heard.Retries), turn.Text)
			}
			if turn.Model == "" || turn.Usage.InputTokens != 1125 || turn.Usage.OutputTokens == 0 || turn.Usage.Estimated {
				t.Errorf("model %q, usage %+v", turn.Model, turn.Usage)
			}
			ids := make(map[string]bool)
			for i := range turn.Calls {
				ids[turn.Calls[i].ID] = true
				turn.Calls[i].ID = ""
			}
			if len(ids) != len(turn.Calls) || ids[""] {
				t.Errorf("ids are %v", ids)
			}
			turn.Usage, turn.Model = model.Usage{}, ""
			if diff := cmp.Diff(want, turn); diff != "" {
				t.Errorf("the turn differs (-want +got):\n%s", diff)
			}
		})
	}
}

// turns plays turns of package model, and sends the conversation back.
func (w world) turns(t *testing.T) {
	first := model.Turn{Text: "Both: ä", Calls: []model.Call{
		{ID: "call_x1", Tool: "fs.read", Input: []byte(`{"path":"ä.txt"}`)}, {ID: "call_x2", Tool: "no such/tool", Input: []byte(`{"path":`)},
	}}
	server := w.start(t, Turn(first), Turn(model.Turn{Text: "Done."}))
	p, err := w.open(server.Endpoint())
	must.Do(t, err)
	r, heard := Conversation(), &Heard{}
	turn := must.Get(p.Generate(t.Context(), r, heard.Observe))(t)
	if turn.Stop != model.ToolUse || len(turn.Calls) != 2 || turn.Calls[0].Tool != "fs.read" || turn.Calls[1].Tool != "no_such_tool" || string(turn.Calls[1].Input) != `{"path":` {
		t.Fatalf("the turn is %+v", turn)
	}
	r.Messages = append(r.Messages,
		model.Message{Role: model.Assistant, Text: turn.Text, Calls: turn.Calls},
		model.Message{Role: model.User, Text: "Go on.", Results: []model.Result{{CallID: "call_x1", Text: "ok"}, {CallID: "call_x2", Text: "no such tool", Failed: true}}},
		model.Message{Role: model.Assistant}, // a turn without text
		model.Message{Role: model.User, Text: "Well?"},
	)
	if turn, err = p.Generate(t.Context(), r, heard.Observe); err != nil || turn.Text != "Done." {
		t.Fatalf("%+v, %v", turn, err)
	}
	if sent := string(server.Requests()[1].Body); !strings.Contains(sent, "INVALID_JSON") || !strings.Contains(sent, "no_such_tool") {
		t.Errorf("the call is not in the conversation that was sent: %s", sent)
	}
}

// retries checks failures after which the turn succeeds.
func (w world) retries(t *testing.T) {
	for name, failure := range map[string]Fixture{
		"408":               Status(408, ""),
		"409":               Status(409, ""),
		"429 with a wait":   Status(429, "", "Retry-After-Ms", "3"),
		"500":               Status(500, ""),
		"502 of a proxy":    Status(502, "<html>Bad Gateway</html>", "Content-Type", "text/html"),
		"529":               Status(529, ""),
		"an error event":    File("error"),
		"cut before events": Raw("").Broken(),
		"ended before":      Raw(""),
		"cut in a call":     File("cut-in-call").Broken(),
		"ended in a call":   File("cut-in-call"),
		"cut before stop":   File("cut-after-call").Broken(),
	} {
		t.Run(name, func(t *testing.T) {
			turn, heard, server, err := w.ask(t, failure, File("text"))
			if err != nil || turn.Text != "Hello, world!" || len(turn.Calls) != 0 {
				t.Fatalf("%+v, %v", turn, err)
			}
			if len(heard.Retries) != 1 || heard.Retries[0].Attempt != 1 || heard.Retries[0].After <= 0 || reason.Of(heard.Retries[0].Cause) != reason.ModelUnavailable {
				t.Errorf("heard the retries %+v", heard.Retries)
			}
			if heard.Text != turn.Text || len(server.Requests()) != 2 {
				t.Errorf("heard %q after %d requests", heard.Text, len(server.Requests()))
			}
		})
	}
	t.Run("never well", func(t *testing.T) {
		_, heard, server, err := w.ask(t, slices.Repeat([]Fixture{File("cut-in-call").Broken()}, 5)...)
		if reason.Of(err) != reason.ModelUnavailable || len(server.Requests()) != 5 || len(heard.Retries) != 4 {
			t.Errorf("%v after %d requests, %d retries", err, len(server.Requests()), len(heard.Retries))
		}
	})
	t.Run("too long a wait", func(t *testing.T) {
		_, heard, _, err := w.ask(t, Status(429, "", "Retry-After", "3600"))
		var e *reason.Error
		if !errors.As(err, &e) || e.Code != reason.ModelUnavailable || e.Fields["retry_at"] == "" || !strings.Contains(e.NextStep(), e.Fields["retry_at"]) || len(heard.Retries) != 0 {
			t.Errorf("%v, %d retries", err, len(heard.Retries))
		}
	})
}

// rejections checks that rejected requests are not retried, and that errors repeat the
// provider's message.
func (w world) rejections(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 413, 422} {
		_, heard, server, err := w.ask(t, Status(status, `{"error":{"type":"some_error","message":"the provider\u001b[31m says\nno"}}`))
		if reason.Of(err) != reason.ModelRejected || !strings.Contains(err.Error(), "(some_error): the provider [31m says no") {
			t.Errorf("%d: %v", status, err)
		}
		if len(server.Requests()) != 1 || len(heard.Retries) != 0 {
			t.Errorf("%d was tried %d times", status, len(server.Requests()))
		}
	}
	_, _, _, err := w.ask(t, Status(400, `{"error":{"message":"`+strings.Repeat("long ", 10_000)+`"}}`))
	if reason.Of(err) != reason.ModelRejected || len(err.Error()) > 700 {
		t.Errorf("an error of %d bytes: %.80s", len(err.Error()), err.Error())
	}
	if _, _, server, err := w.ask(t, Status(429, `{"error":{"type":"insufficient_quota","code":"insufficient_quota","message":"pay"}}`)); reason.Of(err) != reason.ModelRejected || len(server.Requests()) != 1 {
		t.Errorf("no quota left: %v", err)
	}
	if _, _, server, err := w.ask(t, Status(503, "", "X-Should-Retry", "false")); reason.Of(err) != reason.ModelUnavailable || len(server.Requests()) != 1 {
		t.Errorf("a provider that wants no retry: %v", err)
	}
}

// invalid checks that invalid streams are not retried, because a retry would not help.
func (w world) invalid(t *testing.T) {
	for name, fixture := range map[string]Fixture{
		"malformed":    File("malformed"),
		"no-name":      File("no-name"),
		"huge event":   Raw("data: " + strings.Repeat("x", model.MaxEvent) + "\n\n"),
		"endless data": Raw(strings.Repeat("data: "+strings.Repeat("x", 1<<16)+"\n", model.MaxEvent>>16+1)),
		"html":         {body: "<html>", header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}},
		"json":         {body: "{}", header: http.Header{"Content-Type": {"application/json"}}},
	} {
		if turn, heard, _, err := w.ask(t, fixture); reason.Of(err) != reason.ModelInvalid || len(heard.Retries) != 0 {
			t.Errorf("%s: %.80v, %v", name, turn, err)
		}
	}
}

// limits checks the bounds on a turn's text and inputs.
func (w world) limits(t *testing.T) {
	half := strings.Repeat("x", model.MaxTurn/2)
	large := model.Turn{Text: half, Calls: []model.Call{{ID: "call_1", Tool: "fs.write", Input: []byte(half)}}}
	if _, _, _, err := w.ask(t, Raw(whole(w, t, large))); reason.Of(err) != reason.ModelInvalid || !strings.Contains(err.Error(), "larger than 2 MiB") {
		t.Errorf("an overlong turn gives %v", err)
	}
	large.Calls = nil
	if turn, _, _, err := w.ask(t, Raw(whole(w, t, large))); err != nil || len(turn.Text) != len(half) {
		t.Errorf("a long turn gives %v", err)
	}
}

// lies checks that wrong data of a malicious server is bounded.
func (w world) lies(t *testing.T) {
	name := strings.Repeat("n", 1000)
	turn := model.Turn{
		Text: "a\xffb", Calls: []model.Call{{ID: "call_1", Tool: name, Input: []byte("{}")}},
		Usage: model.Usage{InputTokens: math.MaxInt64, OutputTokens: -1 << 40},
	}
	raw := strings.Replace(whole(w, t, turn), wire(name), name, 1)
	got, heard, _, err := w.ask(t, Raw(raw))
	must.Do(t, err)
	if got.Text != "a\uFFFDb" || heard.Text != got.Text {
		t.Errorf("the text is %q, heard %q", got.Text, heard.Text)
	}
	if u := got.Usage; u.InputTokens < 1 || u.InputTokens > 1<<41 || u.OutputTokens < 1 {
		t.Errorf("the usage is %+v", u)
	}
	if n := len(got.Calls[0].Tool); n != 256 {
		t.Errorf("a name of %d bytes became one of %d", len(name), n)
	}
	many := model.Turn{Calls: slices.Repeat([]model.Call{{ID: "c", Tool: "fs.list", Input: []byte("{}")}}, 257)}
	for i := range many.Calls {
		many.Calls[i].ID = fmt.Sprint("call_", i)
	}
	if _, _, _, err := w.ask(t, Turn(many)); reason.Of(err) != reason.ModelInvalid {
		t.Errorf("%d calls in one turn give %v", len(many.Calls), err)
	}
}

// whole returns the stream of a turn with its long deltas merged, which saves the tests a million
// events.
func whole(w world, t *testing.T, turn model.Turn) string {
	marks := model.Turn{Text: "TEXT", Calls: slices.Clone(turn.Calls), Usage: turn.Usage}
	for i := range marks.Calls {
		marks.Calls[i].Input = []byte("INPUT")
	}
	text := strings.Replace(w.start(t).api.stream(marks), "TEXT", turn.Text, 1)
	for _, call := range turn.Calls {
		text = strings.Replace(text, "INPUT", string(call.Input), 1)
	}
	return text
}

func (w world) cancel(t *testing.T) {
	for name, fixture := range map[string]Fixture{"before the first event": Raw("").Stalled(), "in a call": File("cut-in-call").Stalled()} {
		t.Run(name, func(t *testing.T) {
			server := w.start(t, fixture)
			p, err := w.open(server.Endpoint())
			must.Do(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// The request is in progress when it is cancelled.
			go func() {
				<-server.Stalling()
				cancel()
			}()
			_, err = p.Generate(ctx, Conversation(), func(model.Event) {})
			if reason.Of(err) != reason.Cancelled || !errors.Is(err, context.Canceled) {
				t.Errorf("a cancelled request gives %v", err)
			}
			<-server.Gone() // the server detects the disconnect
		})
	}
}

// key checks that the key is sent to the provider and nowhere else.
func (w world) key(t *testing.T) {
	elsewhere := w.start(t, File("text"))
	_, _, server, err := w.ask(t, Status(307, "", "Location", elsewhere.URL+"/elsewhere"))
	if reason.Of(err) != reason.ModelRejected || len(elsewhere.Requests()) != 0 {
		t.Errorf("a redirect gives %v, and %d requests arrived elsewhere", err, len(elsewhere.Requests()))
	}
	if got := server.Requests()[0].Header; !strings.Contains(got.Get("X-Api-Key")+got.Get("Authorization"), Key) {
		t.Errorf("the provider did not get the key: %v", got)
	}
	_, heard, _, err := w.ask(t, Status(500, `{"error":{"message":"what is `+Key+`?"}}`), Status(401, "no "+Key))
	if err == nil || strings.Contains(err.Error(), Key) || !strings.Contains(err.Error(), "no [redacted]") {
		t.Errorf("the key is in %v", err)
	}
	if cause := heard.Retries[0].Cause.Error(); strings.Contains(cause, Key) || !strings.Contains(cause, "what is [redacted]?") {
		t.Errorf("the key is in %v", cause)
	}
}

// lentKey checks that a key is lent for each turn and all its attempts, and is redacted in errors
// like any other.
func (w world) lentKey(t *testing.T) {
	server := w.start(t, Status(500, `{"error":{"message":"what is `+Key+`?"}}`), File("text"), Status(400, "no "+Key))
	host := strings.TrimPrefix(server.URL, "http://")
	host, _, _ = strings.Cut(host, "/")
	endpoint := server.Endpoint()
	endpoint.Key = model.Key{}
	lent, ended, fails := 0, 0, error(nil)
	next := Key
	endpoint.Lend = func(_ context.Context, run, at string) (model.Key, func(), error) {
		if run != "run-1" || at != host {
			t.Errorf("lent to %q for %q", run, at)
		}
		lent++
		return must.Get(model.NewKey(next))(t), func() { ended++ }, fails
	}
	p := must.Get(w.open(endpoint))(t)
	r := Conversation()
	r.Run = "run-1"
	heard := &Heard{}
	must.Get(p.Generate(t.Context(), r, heard.Observe))(t)
	if cause := heard.Retries[0].Cause.Error(); strings.Contains(cause, Key) || lent != 1 || ended != 1 {
		t.Errorf("%q; lent %d times, ended %d times", cause, lent, ended)
	}
	if _, err := p.Generate(t.Context(), r, heard.Observe); err == nil || !strings.Contains(err.Error(), "no [redacted]") || ended != 2 {
		t.Errorf("%v; ended %d times", err, ended)
	}
	next = "another-key-0123"
	_, _ = p.Generate(t.Context(), r, heard.Observe)
	requests := server.Requests()
	for i, want := range []string{Key, Key, Key, next} {
		if got := requests[i].Header; !strings.HasSuffix(got.Get("X-Api-Key")+got.Get("Authorization"), want) {
			t.Errorf("request %d has not the key %q", i, want)
		}
	}
	fails = reason.Errorf(reason.VaultLocked, "the vault is locked")
	if _, err := p.Generate(t.Context(), r, heard.Observe); reason.Of(err) != reason.VaultLocked || len(server.Requests()) != 4 || ended != 3 {
		t.Errorf("without a key: %v, %d requests, %d ended", err, len(server.Requests()), ended)
	}
}

func (w world) request(t *testing.T) {
	server := w.start(t, File("text"), File("text"))
	endpoint := server.Endpoint()
	endpoint.MaxOutputTokens = 4000
	p := must.Get(w.open(endpoint))(t)
	r := Conversation()
	for _, r.MaxTokens = range []int64{0, 300} {
		must.Get(p.Generate(t.Context(), r, func(model.Event) {}))(t)
	}
	for i, want := range []float64{4000, 300} {
		if sent := server.Requests()[i].JSON; number(sent["max_tokens"]) != want || text(sent["model"]) != "test-model" || len(list(sent["tools"])) != 4 {
			t.Errorf("sent %v", sent)
		}
	}
}

// environment checks that the environment variables of the SDKs and net/http have no effect.
func (w world) environment(t *testing.T) {
	trap := w.start(t)
	for _, prefix := range []string{"ANTHROPIC_", "OPENAI_"} {
		t.Setenv(prefix+"API_KEY", "key-of-the-environment")
		t.Setenv(prefix+"AUTH_TOKEN", "key-of-the-environment")
		t.Setenv(prefix+"BASE_URL", trap.URL)
		t.Setenv(prefix+"ORG_ID", "org-of-the-environment")
		t.Setenv(prefix+"CUSTOM_HEADERS", "X-Trap: environment")
	}
	for _, proxy := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
		t.Setenv(proxy, trap.URL)
	}
	w.proxied(t)
	server := w.start(t, File("text"))
	keyless := server.Endpoint()
	keyless.Key = model.Key{}
	for _, endpoint := range []model.Endpoint{server.Endpoint(), keyless} {
		p, err := w.open(endpoint)
		must.Do(t, err)
		_, err = p.Generate(t.Context(), Conversation(), func(model.Event) {})
		if want := endpoint.Key.IsZero(); (reason.Of(err) == reason.ModelRejected) != want || (err != nil) != want {
			t.Errorf("with a key %v: %v", !want, err)
		}
	}
	if n := len(trap.Requests()); n != 0 {
		t.Errorf("%d requests went to the address of the environment", n)
	}
	for _, request := range server.Requests() {
		for name, values := range request.Header {
			if strings.Contains(strings.Join(values, " "), "environment") {
				t.Errorf("header %s is %q", name, values)
			}
		}
	}
}

// proxied requests a turn from an unused address. The proxy of the environment would apply to
// the address, because it is not written as a loopback address.
func (w world) proxied(t *testing.T) {
	p := must.Get(w.open(model.Endpoint{Model: "m", BaseURL: "http://0.0.0.0:1/v1", Retries: model.Retries{Attempts: 1}}))(t)
	if _, err := p.Generate(t.Context(), Conversation(), func(model.Event) {}); reason.Of(err) != reason.ModelUnavailable {
		t.Errorf("where nobody listens: %v", err)
	}
}
