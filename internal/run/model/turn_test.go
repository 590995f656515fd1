package model_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/run/model"
)

func TestFinish(t *testing.T) {
	t.Parallel()
	call := func(input string) model.Call { return model.Call{ID: "c", Tool: "t", Input: []byte(input)} }
	for name, c := range map[string]struct {
		stop  model.Stop
		calls []model.Call
		want  model.Stop
		left  []string
	}{
		"ended with calls":       {stop: model.EndTurn, calls: []model.Call{call(`{}`)}, want: model.ToolUse, left: []string{`{}`}},
		"calls without any":      {stop: model.ToolUse, want: model.EndTurn},
		"nothing written":        {stop: model.ToolUse, calls: []model.Call{call("")}, want: model.ToolUse, left: []string{`{}`}},
		"not JSON":               {stop: model.ToolUse, calls: []model.Call{call(`{"a"`)}, want: model.ToolUse, left: []string{`{"a"`}},
		"cut off":                {stop: model.MaxTokens, calls: []model.Call{call(`{}`), call(`{"a"`)}, want: model.MaxTokens, left: []string{`{}`}},
		"cut off before input":   {stop: model.MaxTokens, calls: []model.Call{call("")}, want: model.MaxTokens},
		"cut off after the call": {stop: model.MaxTokens, calls: []model.Call{call(`{}`)}, want: model.MaxTokens, left: []string{`{}`}},
		"refused":                {stop: model.Refusal, calls: []model.Call{call(`{}`)}, want: model.Refusal},
	} {
		got := model.Finish(model.Request{}, model.Turn{Stop: c.stop, Calls: c.calls})
		var left []string
		for _, call := range got.Calls {
			left = append(left, string(call.Input))
		}
		if got.Stop != c.want || !cmp.Equal(left, c.left) {
			t.Errorf("%s: %s with %q", name, got.Stop, left)
		}
	}
}

func TestFinishNamesCalls(t *testing.T) {
	t.Parallel()
	r := model.Request{Messages: []model.Message{{Role: model.Assistant, Calls: []model.Call{{ID: "a"}, {ID: "call_2"}}}}}
	got := model.Finish(r, model.Turn{Calls: []model.Call{{ID: "b"}, {ID: ""}, {ID: "a"}, {ID: "b"}, {ID: "with space"}, {ID: strings.Repeat("x", 200)}, {ID: "functions.x:0"}}})
	seen := map[string]bool{"a": true, "call_2": true}
	for _, call := range got.Calls {
		if seen[call.ID] || call.ID == "" || len(call.ID) > 128 || strings.Contains(call.ID, " ") {
			t.Errorf("an id is %q", call.ID)
		}
		seen[call.ID] = true
	}
	if got.Calls[0].ID != "b" || got.Calls[6].ID != "functions.x:0" {
		t.Errorf("good ids were changed: %+v", got.Calls)
	}
}

func TestFinishEstimates(t *testing.T) {
	t.Parallel()
	r := model.Request{System: strings.Repeat("s", 300), Messages: []model.Message{{Text: strings.Repeat("t", 300), Results: []model.Result{{Text: strings.Repeat("r", 300)}}}}}
	turn := model.Turn{Text: strings.Repeat("o", 299)}
	if got, want := model.Finish(r, turn).Usage, (model.Usage{InputTokens: 300, OutputTokens: 100, Estimated: true}); got != want {
		t.Errorf("estimated %+v, want %+v", got, want)
	}
}

// TestFinishBoundsCounts: invalid token counts of a provider are bounded. Otherwise a run could
// never reach its budget, or write events that cannot be read.
func TestFinishBoundsCounts(t *testing.T) {
	t.Parallel()
	r := model.Request{System: strings.Repeat("s", 640)}
	turn := model.Turn{Text: strings.Repeat("o", 128), Stop: model.EndTurn}
	for _, c := range []struct{ sent, want model.Usage }{
		{model.Usage{InputTokens: 100, OutputTokens: 20}, model.Usage{InputTokens: 100, OutputTokens: 20}},
		{model.Usage{InputTokens: 10, OutputTokens: 2}, model.Usage{InputTokens: 10, OutputTokens: 2}},
		{model.Usage{InputTokens: 1}, model.Usage{InputTokens: 10, OutputTokens: 2}},
		{model.Usage{InputTokens: 100, OutputTokens: -1 << 40}, model.Usage{InputTokens: 100, OutputTokens: 2}},
		{model.Usage{InputTokens: math.MaxInt64, OutputTokens: math.MaxInt64}, model.Usage{InputTokens: 1 << 40, OutputTokens: 1 << 40}},
	} {
		turn.Usage = c.sent
		if got := model.Finish(r, turn).Usage; got != c.want {
			t.Errorf("%+v became %+v, want %+v", c.sent, got, c.want)
		}
	}
}

func TestMeter(t *testing.T) {
	t.Parallel()
	var m model.Meter
	must.Check(t, m.Add(model.MaxTurn))
	if err := m.Add(1); reason.Of(err) != reason.ModelInvalid {
		t.Errorf("one byte too much: %v", err)
	}
}

func TestInputObject(t *testing.T) {
	t.Parallel()
	for input, same := range map[string]bool{
		`{"a":1}`: true, ` {"a":1} `: true, ``: false, `{"a"`: false, `[1]`: false, `"x"`: false, `null`: false, "{\"a\":\"\xff\"}": false,
	} {
		got := model.InputObject([]byte(input))
		var object map[string]any
		if err := json.Unmarshal(got, &object); err != nil {
			t.Errorf("%q became %s", input, got)
		}
		if _, wrapped := object["INVALID_JSON"]; wrapped == same {
			t.Errorf("%q became %s", input, got)
		}
	}
}
