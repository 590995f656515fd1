package anthropic_test

import (
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run/model"
	"palyra/internal/run/model/anthropic"
	"palyra/internal/run/model/modeltest"
)

func open(endpoint model.Endpoint) (model.Provider, error) { return anthropic.New(endpoint) }

// Not parallel: the suite sets keys and proxies in the environment of the process.
func TestProvider(t *testing.T) { modeltest.Run(t, modeltest.Anthropic, open) }

// ask requests a turn from a server that plays the fixtures.
func ask(t *testing.T, change func(*model.Endpoint), fixtures ...modeltest.Fixture) (model.Turn, *modeltest.Heard, error) {
	t.Helper()
	endpoint := modeltest.Anthropic(t, fixtures...).Endpoint()
	change(&endpoint)
	p := must.Get(anthropic.New(endpoint))(t)
	heard := &modeltest.Heard{}
	turn, err := p.Generate(t.Context(), modeltest.Conversation(), heard.Observe)
	return turn, heard, err
}

func asItIs(*model.Endpoint) {}

func TestPings(t *testing.T) {
	t.Parallel()
	if turn, _, err := ask(t, asItIs, modeltest.File("pings")); err != nil || turn.Text != "Still here." {
		t.Errorf("%+v, %v", turn, err)
	}
}

// TestInputInOnePiece: an input may arrive in one piece, as from servers that imitate the API.
func TestInputInOnePiece(t *testing.T) {
	t.Parallel()
	turn, _, err := ask(t, asItIs, modeltest.File("one-piece"))
	if err != nil || len(turn.Calls) != 1 || string(turn.Calls[0].Input) != `{"path": "README.md"}` {
		t.Errorf("%+v, %v", turn, err)
	}
}

func TestInvalidStreams(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"wrong-block", "unopened", "unclosed", "no-stop-reason", "twice"} {
		if turn, _, err := ask(t, asItIs, modeltest.File(name)); reason.Of(err) != reason.ModelInvalid {
			t.Errorf("%s: %+v, %v", name, turn, err)
		}
	}
}

func TestErrorEvents(t *testing.T) {
	t.Parallel()
	_, heard, err := ask(t, asItIs, modeltest.File("error"), modeltest.File("error-rejected"))
	if reason.Of(err) != reason.ModelRejected || !strings.Contains(err.Error(), "prompt is too long") {
		t.Errorf("got %v", err)
	}
	if len(heard.Retries) != 1 || !strings.Contains(heard.Retries[0].Cause.Error(), "(overloaded_error): Overloaded") {
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

// TestCacheMarks: the parts that a run repeats are marked for the provider's cache. These are
// the system prompt and the conversation so far.
func TestCacheMarks(t *testing.T) {
	t.Parallel()
	server := modeltest.Anthropic(t, modeltest.File("text"))
	p := must.Get(anthropic.New(server.Endpoint()))(t)
	r := modeltest.Conversation()
	must.Get(p.Generate(t.Context(), r, func(model.Event) {}))(t)
	sent := string(server.Requests()[0].Body)
	if n := strings.Count(sent, `"cache_control":{"type":"ephemeral"}`); n != 2 {
		t.Errorf("%d marks in %s", n, sent)
	}
	if len(r.Messages) != 1 || r.Messages[0].Text != "Read the files." {
		t.Errorf("the request was changed: %+v", r)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, e := range []model.Endpoint{{}, {Model: "m"}, {Model: "m", BaseURL: "nowhere"}} {
		if _, err := anthropic.New(e); reason.Of(err) != reason.ConfigInvalid {
			t.Errorf("%+v: %v", e, err)
		}
	}
}
