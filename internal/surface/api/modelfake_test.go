package api_test

import (
	"context"
	"strings"
	"sync"

	"palyra/internal/run/model"
)

// modelFake is a provider whose responses a test sets.
type modelFake struct {
	mu sync.Mutex
	do func(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error)
}

func (f *modelFake) set(do func(context.Context, model.Request, func(model.Event)) (model.Turn, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.do = do
}

// plays sets the turns of a run; the last one is repeated.
func (f *modelFake) plays(turns ...model.Turn) {
	f.set(func(_ context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
		t := turns[min(turnOf(r), len(turns)-1)]
		for word := range strings.FieldsSeq(t.Text) {
			observe(model.Event{Delta: &model.Delta{Text: word}})
		}
		return t, nil
	})
}

// turnOf counts the turns of a conversation.
func turnOf(r model.Request) int {
	n := 0
	for _, m := range r.Messages {
		if m.Role == model.Assistant {
			n++
		}
	}
	return n
}

func (f *modelFake) Generate(ctx context.Context, r model.Request, observe func(model.Event)) (model.Turn, error) {
	f.mu.Lock()
	do := f.do
	f.mu.Unlock()
	if do == nil {
		return says("done"), nil
	}
	return do(ctx, r, observe)
}

// says returns a turn that ends the run.
func says(text string) model.Turn {
	return model.Turn{Text: text, Stop: model.EndTurn, Usage: model.Usage{InputTokens: 3, OutputTokens: 2}, Model: "fake-1"}
}

// wants returns a turn with calls.
func wants(calls ...model.Call) model.Turn {
	return model.Turn{Calls: calls, Stop: model.ToolUse, Usage: model.Usage{InputTokens: 3, OutputTokens: 2}, Model: "fake-1"}
}

// read and program return calls of the tools of the world.
func read(id string) model.Call {
	return model.Call{ID: id, Tool: "fs.read", Input: reading().GetInputJson()}
}

func program(id string) model.Call {
	return model.Call{ID: id, Tool: "process.run", Input: running().GetInputJson()}
}
