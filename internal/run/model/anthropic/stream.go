package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"palyra/internal/core/canonical"
	"palyra/internal/run/model"
)

// read assembles a turn from a stream. It returns a turn only after message_stop.
func read(stream *ssestream.Stream[sdk.MessageStreamEventUnion], names model.Names, observe func(model.Event)) (model.Turn, error) {
	a := &assembly{Draft: model.Draft{Observe: observe}, names: names, blocks: make(map[int64]*block)}
	for stream.Next() {
		event := stream.Current()
		if err := canonical.Names([]byte(event.RawJSON()), eventKeys{}); err != nil {
			return model.Turn{}, model.Invalid("an event is ambiguous: %v", err)
		}
		whole, err := a.add(event)
		if err != nil {
			return model.Turn{}, err
		}
		if whole {
			return a.Turn, nil
		}
	}
	if err := stream.Err(); err != nil {
		return model.Turn{}, err
	}
	return model.Turn{}, model.ErrCut
}

// eventKeys are the keys of an event that determine the turn.
type eventKeys struct {
	Type  any `json:"type"`
	Index any `json:"index"`
	Block struct {
		Type  any `json:"type"`
		Text  any `json:"text"`
		ID    any `json:"id"`
		Name  any `json:"name"`
		Input any `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type    any `json:"type"`
		Text    any `json:"text"`
		Partial any `json:"partial_json"`
		Stop    any `json:"stop_reason"`
	} `json:"delta"`
}

// assembly is a partially received turn.
type assembly struct {
	model.Draft
	names model.Names
	// blocks are the content blocks by index; order lists the calls.
	blocks map[int64]*block
	order  []*block
	usage  sdk.MessageDeltaUsage
}

// block is a content block. Blocks that are neither text nor a call, such as thinking, are
// discarded.
type block struct {
	kind   string
	call   model.Call
	input  json.RawMessage
	closed bool
}

// add processes the next event and reports whether the turn is complete.
func (a *assembly) add(e sdk.MessageStreamEventUnion) (whole bool, err error) {
	switch e.Type {
	case "message_start":
		a.Turn.Model = e.Message.Model
		a.count(sdk.MessageDeltaUsage{
			InputTokens: e.Message.Usage.InputTokens, OutputTokens: e.Message.Usage.OutputTokens,
			CacheCreationInputTokens: e.Message.Usage.CacheCreationInputTokens, CacheReadInputTokens: e.Message.Usage.CacheReadInputTokens,
		})
	case "content_block_start":
		return false, a.open(e.Index, e.ContentBlock)
	case "content_block_delta":
		return false, a.extend(e.Index, e.Delta)
	case "content_block_stop":
		b, err := a.at(e.Index)
		if err != nil {
			return false, err
		}
		b.closed = true
	case "message_delta":
		if why := e.Delta.StopReason; why != "" {
			a.Turn.Stop = stop(why)
		}
		a.count(e.Usage)
	case "message_stop":
		return a.close()
	}
	// The API may send events of new types at any time.
	return false, nil
}

func (a *assembly) open(index int64, start sdk.ContentBlockStartEventContentBlockUnion) error {
	if a.blocks[index] != nil {
		return model.Invalid("content block %d starts twice", index)
	}
	b := &block{kind: start.Type}
	a.blocks[index] = b
	if err := a.Meter.Add(model.CallSize); err != nil {
		return err
	}
	switch b.kind {
	case "text":
		return a.Say(start.Text)
	case "tool_use":
		if start.Name == "" {
			return model.Invalid("tool call %q has no name", start.ID)
		}
		b.call = model.Call{ID: start.ID, Tool: a.names.Ours(start.Name)}
		// Servers that imitate the API send the whole input here.
		b.input = json.RawMessage(start.JSON.Input.Raw())
		a.order = append(a.order, b)
		return a.Meter.Add(len(start.ID) + len(start.Name) + len(b.input))
	}
	return nil
}

func (a *assembly) extend(index int64, delta sdk.MessageStreamEventUnionDelta) error {
	b, err := a.at(index)
	if err != nil {
		return err
	}
	switch {
	case delta.Type == "text_delta" && b.kind == "text":
		return a.Say(delta.Text)
	case delta.Type == "input_json_delta" && b.kind == "tool_use":
		b.call.Input = append(b.call.Input, delta.PartialJSON...)
		return a.Meter.Add(len(delta.PartialJSON))
	case delta.Type == "text_delta" || delta.Type == "input_json_delta" && b.kind != "server_tool_use":
		return model.Invalid("received a %s for a content block of type %q", delta.Type, b.kind)
	}
	return nil
}

// at returns the open block with an index.
func (a *assembly) at(index int64) (*block, error) {
	b := a.blocks[index]
	if b == nil || b.closed {
		return nil, model.Invalid("content block %d is not open", index)
	}
	return b, nil
}

// count records the latest counts; they are totals, and 0 if omitted.
func (a *assembly) count(u sdk.MessageDeltaUsage) {
	a.usage.InputTokens = cmp.Or(u.InputTokens, a.usage.InputTokens)
	a.usage.CacheCreationInputTokens = cmp.Or(u.CacheCreationInputTokens, a.usage.CacheCreationInputTokens)
	a.usage.CacheReadInputTokens = cmp.Or(u.CacheReadInputTokens, a.usage.CacheReadInputTokens)
	a.usage.OutputTokens = cmp.Or(u.OutputTokens, a.usage.OutputTokens)
}

func (a *assembly) close() (bool, error) {
	for index, b := range a.blocks {
		if !b.closed {
			return false, model.Invalid("content block %d does not end", index)
		}
	}
	if a.Turn.Stop == "" {
		return false, model.Invalid("the turn ends without a stop reason")
	}
	a.Turn.Text = a.Text()
	for _, b := range a.order {
		if len(b.call.Input) == 0 {
			b.call.Input = b.input
		}
		a.Turn.Calls = append(a.Turn.Calls, b.call)
	}
	a.Turn.Usage = model.Usage{
		InputTokens:  a.usage.InputTokens + a.usage.CacheCreationInputTokens + a.usage.CacheReadInputTokens,
		OutputTokens: a.usage.OutputTokens,
	}
	return true, nil
}

// stop translates stop reasons; model.Finish distinguishes EndTurn and ToolUse.
func stop(why sdk.StopReason) model.Stop {
	switch why {
	case sdk.StopReasonMaxTokens, sdk.StopReasonModelContextWindowExceeded:
		return model.MaxTokens
	case sdk.StopReasonRefusal:
		return model.Refusal
	}
	return model.EndTurn
}

// eventIn returns the JSON of an error in the stream, nil for other errors.
func eventIn(err error) []byte {
	var event *sdk.Error
	if errors.As(err, &event) {
		return []byte(event.RawJSON())
	}
	return nil
}
