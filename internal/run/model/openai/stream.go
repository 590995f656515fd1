package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"

	"palyra/internal/core/canonical"
	"palyra/internal/run/model"
)

// read assembles a turn from a stream. It returns a turn only after a finish_reason; a later
// failure loses only the token count.
func read(stream model.EventStream, names model.Names, observe func(model.Event)) (model.Turn, error) {
	a := &assembly{Draft: model.Draft{Observe: observe}, open: make(map[int64]*call)}
	for {
		chunk, err := next(stream)
		switch {
		case err == nil:
			if err := a.add(chunk); err != nil {
				return model.Turn{}, err
			}
		case a.Turn.Stop != "":
			return a.finish(names)
		case errors.Is(err, io.EOF):
			return model.Turn{}, model.ErrCut
		default:
			return model.Turn{}, err
		}
	}
}

// next returns the next chunk, or io.EOF at the end of the answer.
func next(stream model.EventStream) (chunk, error) {
	event, err := stream.Next()
	if err != nil {
		return chunk{}, err
	}
	if bytes.HasPrefix(event.Data, []byte("[DONE]")) {
		return chunk{}, io.EOF
	}
	var failed struct {
		Error json.RawMessage `json:"error"`
	}
	if err := canonical.Read(event.Data, &failed); err != nil {
		return chunk{}, err
	}
	if failed.Error != nil {
		return chunk{}, model.ErrorEvent(event.Data)
	}
	var out chunk
	err = canonical.Read(event.Data, &out)
	return out, err
}

// assembly is a partially received turn.
type assembly struct {
	model.Draft
	refused bool
	// calls are in the order of their start; open has the latest call of each index.
	calls []*call
	open  map[int64]*call
}

// call is a partially received tool call.
type call struct {
	id, name  string
	arguments []byte
	// pieces counts the parts since the arguments started.
	pieces int
}

// add processes the next chunk.
func (a *assembly) add(chunk chunk) error {
	a.Turn.Model = cmp.Or(chunk.Model, a.Turn.Model)
	if used := chunk.Usage; used.PromptTokens > 0 || used.CompletionTokens > 0 {
		a.Turn.Usage = model.Usage{InputTokens: used.PromptTokens, OutputTokens: used.CompletionTokens}
	}
	for _, choice := range chunk.Choices {
		if choice.Index != 0 {
			continue
		}
		if err := a.extend(choice.Delta); err != nil {
			return err
		}
		if why := choice.FinishReason; why != "" {
			a.Turn.Stop = stop(why)
		}
	}
	return nil
}

func (a *assembly) extend(delta delta) error {
	if err := a.Say(delta.Content); err != nil {
		return err
	}
	if delta.Refusal != "" {
		a.refused = true
		if err := a.Say(delta.Refusal); err != nil {
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

func (a *assembly) extendCall(part part) error {
	c := a.open[part.Index]
	size := len(part.ID) + len(part.Function.Name) + len(part.Function.Arguments)
	if begins(c, part) {
		c = &call{}
		a.open[part.Index] = c
		a.calls = append(a.calls, c)
		size += model.CallSize
	}
	if err := a.Meter.Add(size); err != nil {
		return err
	}
	c.id = cmp.Or(c.id, part.ID)
	// Names are sent complete, once or with every part.
	c.name = cmp.Or(c.name, part.Function.Name)
	c.arguments = append(c.arguments, part.Function.Arguments...)
	if len(c.arguments) > 0 {
		c.pieces++
	}
	return nil
}

// begins reports whether a part starts a new call, although it has the index of the existing
// call c. The API gives each call its own index, but some servers that send each call in one
// part give all of them index 0. On such a server, a new call has another id. Without ids, it
// has a name after arguments that came in one part and are valid JSON. Only one part is
// checked: parsing the arguments again after each part would take quadratic time.
func begins(c *call, part part) bool {
	switch {
	case c == nil:
		return true
	case part.ID != "" && c.id != "":
		return part.ID != c.id
	}
	return part.ID == "" && c.id == "" && part.Function.Name != "" && c.pieces == 1 && json.Valid(c.arguments)
}

func (a *assembly) finish(names model.Names) (model.Turn, error) {
	a.Turn.Text = a.Text()
	if a.refused {
		a.Turn.Stop = model.Refusal
	}
	for _, c := range a.calls {
		if c.name == "" {
			return model.Turn{}, model.Invalid("tool call %q has no name", c.id)
		}
		a.Turn.Calls = append(a.Turn.Calls, model.Call{ID: c.id, Tool: names.Ours(c.name), Input: c.arguments})
	}
	return a.Turn, nil
}

// stop translates finish reasons; model.Finish distinguishes EndTurn and ToolUse.
func stop(why string) model.Stop {
	switch why {
	case "length":
		return model.MaxTokens
	case "content_filter":
		return model.Refusal
	}
	return model.EndTurn
}
