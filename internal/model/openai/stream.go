package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"palyra/internal/model"
	"palyra/internal/reason"
)

// read assembles a turn from a stream. It returns one only if a finish_reason
// came; what breaks after that costs at most the count of tokens.
func read(stream *ssestream.Stream[sdk.ChatCompletionChunk], names model.Names, observe func(model.Event)) (model.Turn, error) {
	a := &assembly{observe: observe, open: make(map[int64]*call)}
	for stream.Next() {
		if err := a.add(stream.Current()); err != nil {
			return model.Turn{}, err
		}
	}
	if a.turn.Stop == "" {
		return model.Turn{}, cmp.Or(stream.Err(), model.ErrCut)
	}
	return a.finish(names)
}

// assembly is a turn of which a part has come.
type assembly struct {
	observe func(model.Event)
	meter   model.Meter
	turn    model.Turn
	text    strings.Builder
	refused bool
	// calls are in the order in which they began; open has the latest of each
	// index.
	calls []*call
	open  map[int64]*call
}

// call is a tool call of which a part has come.
type call struct {
	id, name  string
	arguments []byte
	// pieces counts the parts since the arguments began.
	pieces int
}

// add takes the next chunk.
func (a *assembly) add(chunk sdk.ChatCompletionChunk) error {
	a.turn.Model = cmp.Or(chunk.Model, a.turn.Model)
	if used := chunk.Usage; used.PromptTokens > 0 || used.CompletionTokens > 0 {
		a.turn.Usage = model.Usage{InputTokens: used.PromptTokens, OutputTokens: used.CompletionTokens}
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := a.extend(choice.Delta); err != nil {
			return err
		}
		if why := choice.FinishReason; why != "" {
			a.turn.Stop = stop(why)
		}
	}
	return nil
}

func (a *assembly) extend(delta sdk.ChatCompletionChunkChoiceDelta) error {
	if err := a.say(delta.Content); err != nil {
		return err
	}
	if delta.Refusal != "" {
		a.refused = true
		if err := a.say(delta.Refusal); err != nil {
			return err
		}
	}
	for _, part := range delta.ToolCalls {
		if err := a.extendCall(part); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembly) say(text string) error {
	if text == "" {
		return nil
	}
	text = model.Text(text)
	if err := a.meter.Add(len(text)); err != nil {
		return err
	}
	a.text.WriteString(text)
	a.observe(model.Event{Delta: &model.Delta{Text: text}})
	return nil
}

func (a *assembly) extendCall(part sdk.ChatCompletionChunkChoiceDeltaToolCall) error {
	c := a.open[part.Index]
	size := len(part.ID) + len(part.Function.Name) + len(part.Function.Arguments)
	if begins(c, part) {
		c = &call{}
		a.open[part.Index] = c
		a.calls = append(a.calls, c)
		size += model.CallSize
	}
	if err := a.meter.Add(size); err != nil {
		return err
	}
	c.id = cmp.Or(c.id, part.ID)
	// Names come whole, once or with every part.
	c.name = cmp.Or(c.name, part.Function.Name)
	c.arguments = append(c.arguments, part.Function.Arguments...)
	if len(c.arguments) > 0 {
		c.pieces++
	}
	return nil
}

// begins reports whether a part is the first of a new call, although it has the
// index of c, the call that its index had so far. The API gives each call an index
// of its own, but some servers that send each call in one part give all of them
// index 0. There a new call begins with another id or, without ids, with a name
// after arguments that came in one part and are valid JSON. Only one part is
// looked at: to parse the arguments again after each part would take quadratic time.
func begins(c *call, part sdk.ChatCompletionChunkChoiceDeltaToolCall) bool {
	switch {
	case c == nil:
		return true
	case part.ID != "" && c.id != "":
		return part.ID != c.id
	}
	return part.ID == "" && c.id == "" && part.Function.Name != "" && c.pieces == 1 && json.Valid(c.arguments)
}

func (a *assembly) finish(names model.Names) (model.Turn, error) {
	a.turn.Text = a.text.String()
	if a.refused {
		a.turn.Stop = model.Refusal
	}
	for _, c := range a.calls {
		if c.name == "" {
			return model.Turn{}, invalid("tool call %q has no name", c.id)
		}
		a.turn.Calls = append(a.turn.Calls, model.Call{ID: c.id, Tool: names.Ours(c.name), Input: c.arguments})
	}
	return a.turn, nil
}

// stop translates finish reasons; model.Finish tells EndTurn and ToolUse apart.
func stop(why string) model.Stop {
	switch why {
	case "length":
		return model.MaxTokens
	case "content_filter":
		return model.Refusal
	}
	return model.EndTurn
}

func invalid(format string, args ...any) error {
	return reason.Errorf(reason.ModelInvalid, "the answer of the model's provider cannot be read: "+format, args...)
}

// failure sorts what ended an attempt.
func (p *Provider) failure(ctx context.Context, err error) error {
	var event *ssestream.StreamError
	if ctx.Err() == nil && errors.As(err, &event) {
		return model.FailureInStream(p.endpoint.Key, event.Event.Data)
	}
	return model.Failure(ctx, p.endpoint.Key, err)
}
