package scripted_test

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run/model"
	"palyra/internal/run/model/modeltest"
	"palyra/internal/run/model/scripted"
)

func example(t *testing.T) *scripted.Provider {
	t.Helper()
	return must.Get(scripted.New(scripted.Config{File: "testdata/example.yaml"}))(t)
}

// talk is a conversation with a provider.
type talk struct {
	p     model.Provider
	r     model.Request
	heard modeltest.Heard
}

// say adds a message of the user and requests the next turn.
func (k *talk) say(ctx context.Context, m model.Message) (model.Turn, error) {
	m.Role = model.User
	k.r.Messages = append(k.r.Messages, m)
	k.heard = modeltest.Heard{}
	turn, err := k.p.Generate(ctx, k.r, k.heard.Observe)
	if err == nil {
		k.r.Messages = append(k.r.Messages, model.Message{Role: model.Assistant, Text: turn.Text, Calls: turn.Calls})
	}
	return turn, err
}

func results(texts ...string) model.Message {
	var m model.Message
	for _, text := range texts {
		m.Results = append(m.Results, model.Result{Text: text, Failed: strings.Contains(text, "DENIED")})
	}
	return m
}

func TestExample(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &talk{p: example(t)}
		turn, err := k.say(t.Context(), model.Message{Text: "Compare the files."})
		if err != nil || turn.Stop != model.ToolUse || len(turn.Calls) != 2 || turn.Model != "scripted" || turn.Usage != (model.Usage{InputTokens: 1200, OutputTokens: 80}) {
			t.Fatalf("%+v, %v", turn, err)
		}
		if got := turn.Calls[1]; got.Tool != "fs.read" || string(got.Input) != `{"path":"CHANGELOG.md"}` || got.ID == turn.Calls[0].ID {
			t.Errorf("the second call is %+v", got)
		}
		if turn, err = k.say(t.Context(), results("About Palyra", "news")); err != nil || turn.Stop != model.EndTurn || !turn.Usage.Estimated {
			t.Fatalf("%+v, %v", turn, err)
		}
		began := time.Now()
		turn, err = k.say(t.Context(), model.Message{Text: "Thanks!"})
		if err != nil || k.heard.Text != "You are welcome." || turn.Text != k.heard.Text || time.Since(began) != 60*time.Millisecond {
			t.Fatalf("%+v, %v, heard %q after %s", turn, err, k.heard.Text, time.Since(began))
		}
		if _, err = k.say(t.Context(), model.Message{Text: "More?"}); reason.Of(err) != reason.ModelRejected || !strings.Contains(err.Error(), "has ended: it has 3 turns") {
			t.Errorf("after the last turn: %v", err)
		}
	})
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k := &talk{p: example(t)}
		turn, err := k.say(t.Context(), model.Message{Text: "Make a release"})
		if err != nil || string(turn.Calls[0].Input) != `{"argv": ["git", "tag"` {
			t.Fatalf("%+v, %v", turn, err)
		}
		turn, err = k.say(t.Context(), results("DENIED"))
		if err != nil || len(k.heard.Retries) != 2 || k.heard.Text != turn.Text || turn.Text != "I will not tag anything." {
			t.Errorf("%+v, %v, heard %+v", turn, err, k.heard)
		}
	})
}

func TestRepeatAndConcurrency(t *testing.T) {
	t.Parallel()
	p := example(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			k, ids := &talk{p: p}, make(map[string]bool)
			for n := range 20 {
				turn, err := k.say(t.Context(), model.Message{Text: "bench"})
				if err != nil || (len(turn.Calls) == 1) != (n%2 == 0) {
					t.Errorf("turn %d is %+v, %v", n, turn, err)
					return
				}
				for _, call := range turn.Calls {
					if ids[call.ID] {
						t.Errorf("the id %s came twice", call.ID)
					}
					ids[call.ID] = true
				}
			}
		})
	}
	all.Wait()
}

func TestExpectations(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		expect string
		last   model.Message
		want   string
	}{
		"matches":       {"{result: 1, matches: ^ok}", results("ok"), ""},
		"does not":      {"{result: 1, matches: ^ok}", results("not ok"), `result 1 should match "^ok", but is "not ok"`},
		"lacks":         {"{result: 2, lacks: bad}", results("bad", "good"), ""},
		"does not lack": {"{result: 2, lacks: bad}", results("good", "bad"), `result 2 should not match "bad"`},
		"failed":        {"{result: 1, failed: true}", results("DENIED"), ""},
		"not failed":    {"{result: 1, failed: true}", results("ok"), "should be a failure"},
		"fine":          {"{result: 1, failed: false}", results("ok"), ""},
		"not fine":      {"{result: 1, failed: false}", results("DENIED"), "should not be a failure"},
		"no such one":   {"{result: 2}", results("ok"), "result 2 is missing; there are 1"},
		"message":       {"{message: yes}", model.Message{Text: "yes, please"}, ""},
		"other message": {"{message: yes}", model.Message{Text: "no"}, `the message should match "yes", but is "no"`},
		"earlier one":   {"{message: begin}", results("ok"), ""},
	} {
		p, err := scripted.Parse(scripted.Config{File: "x.yaml"}, []byte("turns:\n  - text: Hi\n  - text: Well\n    expect:\n      - "+c.expect+"\n"))
		must.Do(t, err)
		k := &talk{p: p}
		must.Get(k.say(t.Context(), model.Message{Text: "begin"}))(t)
		_, err = k.say(t.Context(), c.last)
		if c.want == "" && err != nil || c.want != "" && (reason.Of(err) != reason.ModelRejected || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "turn 2 (line 3)")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRejected(t *testing.T) {
	t.Parallel()
	p := must.Get(scripted.Parse(scripted.Config{File: "x.yaml"}, []byte("conversations:\n  - when: ^a\n    turns:\n      - error: {rejected: too long}\n")))(t)
	for message, want := range map[string]string{"a": "script x.yaml: too long", "b": "no conversation matches"} {
		if _, err := (&talk{p: p}).say(t.Context(), model.Message{Text: message}); reason.Of(err) != reason.ModelRejected || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", message, err)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := must.Get(scripted.Parse(scripted.Config{}, []byte("turns:\n  - text: a b c d\n    delay: 10s\n")))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		began, k := time.Now(), &talk{p: p}
		if _, err := k.say(ctx, model.Message{Text: "x"}); reason.Of(err) != reason.Cancelled || k.heard.Text != "a b " || time.Since(began) != 25*time.Second {
			t.Errorf("%v after %s, heard %q", err, time.Since(began), k.heard.Text)
		}
	})
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                       "the script has no turns",
		"turns: []":                              "the script has no turns",
		"turns:\n  - txt: a\n":                   `line 2, column 5: unknown field "txt"`,
		"turns:\n  - text: a\n    text: b\n":     "line 3, column 5",
		"turns:\n  - text: [a]\n":                "line 2, column 11",
		"turns:\n  -\n":                          "turn 1 is empty",
		"turns:\n  - usage: {input: 1}\n":        "line 2, column 10: the turn has no text",
		"turns:\n  - text: a\n    stop: tired\n": `stop is "tired"`,
		"turns:\n  - text: a\n    delay: -1s\n":  "negative",
		"turns:\n  - text: a\n    calls:\n      - input: {}\n":                   "the call has no tool",
		"turns:\n  - calls:\n      - {tool: a, input: {}, raw: x}\n":             "both input and raw",
		"turns:\n  - calls:\n      - {tool: a, input: {x: .nan}}\n":              "converting the input to JSON",
		"turns:\n  - text: a\n    expect:\n      - {result: 1, matches: '('}\n":  "line 4, column 30: error parsing regexp",
		"turns:\n  - text: a\n    expect:\n      - {matches: a}\n":               "either message or result",
		"turns:\n  - text: a\n    expect:\n      - {message: a, failed: true}\n": "apply only to results",
		"turns:\n  - text: a\n    error: {rejected: no}\n":                       "must have no other fields",
		"conversations:\n  - turns:\n      - text: a\n":                          "when is required",
		"conversations:\n  - when: a\n":                                          "the conversation has no turns",
		"turns:\n  - text: a\n---\nturns:\n  - text: b\n":                        "more than one YAML document",
		"turns: {": "line 1",
	} {
		_, err := scripted.Parse(scripted.Config{File: "x.yaml"}, []byte(text))
		if reason.Of(err) != reason.ConfigInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := scripted.New(scripted.Config{File: "testdata/none.yaml"}); reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a missing file: %v", err)
	}
}

// TestDocumentation: docs/scripted-models.md contains the example.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	doc := must.Get(os.ReadFile("../../../../docs/scripted-models.md"))(t)
	script := must.Get(os.ReadFile("testdata/example.yaml"))(t)
	if !strings.Contains(string(doc), "```yaml\n"+string(script)+"```\n") {
		t.Error("docs/scripted-models.md does not show testdata/example.yaml as it is")
	}
}

func FuzzParse(f *testing.F) {
	text := must.Get(os.ReadFile("testdata/example.yaml"))(f)
	f.Add(string(text))
	f.Add("turns:\n  - text: a\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := scripted.Parse(scripted.Config{Retries: model.Retries{Attempts: 1}}, []byte(text))
		if err != nil || strings.Contains(text, "delay") {
			return
		}
		r := model.Request{Messages: []model.Message{{Role: model.User, Text: "x"}}}
		if turn, err := p.Generate(t.Context(), r, func(model.Event) {}); err == nil && turn.Text == "" && len(turn.Calls) == 0 && turn.Stop == model.EndTurn {
			t.Errorf("an empty turn: %+v", turn)
		}
	})
}
