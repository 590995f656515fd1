package anthropic

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"

	"palyra/internal/core/canonical"
	"palyra/internal/run/model"
)

// read assembles a turn from a stream. It returns a turn only after message_stop.
func read(stream model.EventStream, names model.Names, observe func(model.Event)) (model.Turn, error) {
	a := &assembly{Draft: model.Draft{Observe: observe}, names: names, blocks: make(map[int64]*block)}
	for {
		e, err := next(stream)
		if err != nil {
			return model.Turn{}, err
		}
		whole, err := a.add(e)
		if err != nil {
			return model.Turn{}, err
		}
		if whole {
			return a.Turn, nil
		}
	}
}

// eventTypes are the types of events that make up a message.
var eventTypes = []string{"message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"}

// next returns the next event of the message.
func next(stream model.EventStream) (event, error) {
	for {
		received, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return event{}, model.ErrCut
		}
		if err != nil {
			return event{}, err
		}
		switch received.Name {
		case "", "ping":
			continue
		case "error":
			failed := model.ErrorEvent(received.Data)
			if !json.Valid(failed) {
				return event{}, errors.New(failed.Error())
			}
			return event{}, failed
		}
		// The API may send events of new types at any time, whose members may have other types.
		var header struct {
			Type string `json:"type"`
		}
		if err := json.Unmarshal(received.Data, &header); err != nil {
			return event{}, err
		}
		if err := canonical.Names(received.Data, header); err != nil {
			return event{}, model.Invalid("an event is ambiguous: %v", err)
		}
		if !slices.Contains(eventTypes, header.Type) {
			continue
		}
		var e event
		if err := json.Unmarshal(received.Data, &e); err != nil {
			return event{}, err
		}
		if err := canonical.Names(received.Data, e); err != nil {
			return event{}, model.Invalid("an event is ambiguous: %v", err)
		}
		return e, nil
	}
}

// assembly is a partially received turn.
type assembly struct {
	model.Draft
	names model.Names
	// blocks are the content blocks by index; order lists the calls.
	blocks map[int64]*block
	order  []*block
	usage  usage
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
func (a *assembly) add(e event) (whole bool, err error) {
	switch e.Type {
	case "message_start":
		a.Turn.Model = e.Message.Model
		a.count(e.Message.Usage)
	case "content_block_start":
		return false, a.open(e.Index, e.Block)
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
	return false, nil
}

func (a *assembly) open(index int64, start start) error {
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
		b.input = start.Input
		a.order = append(a.order, b)
		return a.Meter.Add(len(start.ID) + len(start.Name) + len(b.input))
	}
	return nil
}

func (a *assembly) extend(index int64, delta delta) error {
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
func (a *assembly) count(u usage) {
	a.usage.InputTokens = cmp.Or(u.InputTokens, a.usage.InputTokens)
	a.usage.CacheCreationTokens = cmp.Or(u.CacheCreationTokens, a.usage.CacheCreationTokens)
	a.usage.CacheReadTokens = cmp.Or(u.CacheReadTokens, a.usage.CacheReadTokens)
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
		InputTokens:  a.usage.InputTokens + a.usage.CacheCreationTokens + a.usage.CacheReadTokens,
		OutputTokens: a.usage.OutputTokens,
	}
	return true, nil
}

// stop translates stop reasons; model.Finish distinguishes EndTurn and ToolUse.
func stop(why string) model.Stop {
	switch why {
	case "max_tokens", "model_context_window_exceeded":
		return model.MaxTokens
	case "refusal":
		return model.Refusal
	}
	return model.EndTurn
}
