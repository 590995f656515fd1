package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"palyra/internal/core/reason"
	"palyra/internal/core/text"
)

// MaxTurn bounds the text and the inputs of one turn, in bytes. A turn is one message of the
// API; the limit of a message is twice this size.
const MaxTurn = 2 << 20

// Meter measures a turn while it is received. The zero Meter is ready to use.
type Meter struct{ size int }

// Add counts a part and fails when the turn is too large.
func (m *Meter) Add(bytes int) error {
	if m.size += bytes; m.size > MaxTurn {
		return reason.Errorf(reason.ModelInvalid, "the model's turn is larger than %d MiB", MaxTurn>>20).
			WithRemedy("Set max_output_tokens of the model in palyra.toml.")
	}
	return nil
}

// Draft is a partially received turn: its text is measured, stored, and reported to Observe.
type Draft struct {
	Turn  Turn
	Meter Meter
	// Observe receives each part of the text.
	Observe func(Event)
	text    strings.Builder
}

// Say adds a part of the text.
func (d *Draft) Say(text string) error {
	if text == "" {
		return nil
	}
	text = Text(text)
	if err := d.Meter.Add(len(text)); err != nil {
		return err
	}
	d.text.WriteString(text)
	d.Observe(Event{Delta: &Delta{Text: text}})
	return nil
}

// Text returns the whole text.
func (d *Draft) Text() string { return d.text.String() }

// CallSize is how many bytes a Meter counts for a call in addition to its content. With MaxTurn it
// limits a turn to 256 calls.
const CallSize = 8 << 10

// Finish completes a turn whose stream has ended properly. It drops or completes calls as described
// at Turn.Calls, and estimates the tokens if the provider sent no count.
func Finish(r Request, t Turn) Turn {
	switch {
	case t.Stop == Refusal:
		t.Calls = nil
	case t.Stop == MaxTokens:
		if last := len(t.Calls) - 1; last >= 0 && !json.Valid(t.Calls[last].Input) {
			t.Calls = t.Calls[:last]
		}
	case len(t.Calls) > 0:
		t.Stop = ToolUse
	default:
		t.Stop = EndTurn
	}
	for i := range t.Calls {
		if len(bytes.TrimSpace(t.Calls[i].Input)) == 0 {
			t.Calls[i].Input = []byte("{}")
		}
	}
	identify(r.Messages, t.Calls)
	t.Model = short(t.Model)
	for i := range t.Calls {
		t.Calls[i].Tool = short(t.Calls[i].Tool)
	}
	t.Usage = count(r, t)
	return t
}

// maxWritten bounds names that a model or its provider chooses freely, in bytes.
const maxWritten = 256

func short(name string) string { return strings.ToValidUTF8(text.Clip(name, maxWritten), "") }

// identify makes the ids of calls unique within the conversation and valid for later requests.
// Some servers send no ids, or the same ids in every turn.
func identify(conversation []Message, calls []Call) {
	earlier := 0
	for _, m := range conversation {
		earlier += len(m.Calls)
	}
	for i := range calls {
		id := calls[i].ID
		for n := earlier + i; id == "" || len(id) > 128 || isUsed(id, conversation, calls[:i]) || strings.ContainsFunc(id, unfitInID); n++ {
			id = fmt.Sprintf("call_%d", n)
		}
		calls[i].ID = id
	}
}

// isUsed searches the conversation. A turn has few calls: a set of all ids would cost more at each
// turn than it saves.
func isUsed(id string, conversation []Message, turn []Call) bool {
	has := func(calls []Call) bool {
		return slices.ContainsFunc(calls, func(c Call) bool { return c.ID == id })
	}
	return has(turn) || slices.ContainsFunc(conversation, func(m Message) bool { return has(m.Calls) })
}

func unfitInID(r rune) bool { return r <= ' ' || r > '~' }

const (
	// bytesPerToken is low for English text, so that an estimate is rather too high than too low.
	bytesPerToken = 3
	// mostBytesPerToken is above the average of any text. A lower count is wrong, and would let a
	// run continue without end.
	mostBytesPerToken = 64
	// mostTokens is far above any turn. The sum of many still fits, and the journal's JSON
	// represents it exactly.
	mostTokens = 1 << 40
)

// count returns the provider's count, limited to plausible values, or an estimate.
func count(r Request, t Turn) Usage {
	in, out := size(r, t)
	if t.Usage == (Usage{}) {
		return Usage{InputTokens: tokens(in, bytesPerToken), OutputTokens: tokens(out, bytesPerToken), Estimated: true}
	}
	t.Usage.InputTokens = min(max(t.Usage.InputTokens, tokens(in, mostBytesPerToken)), mostTokens)
	t.Usage.OutputTokens = min(max(t.Usage.OutputTokens, tokens(out, mostBytesPerToken)), mostTokens)
	return t.Usage
}

// size returns how many bytes the model read and wrote.
func size(r Request, t Turn) (in, out int) {
	in = len(r.System)
	for _, m := range r.Messages {
		in += len(m.Text)
		for _, call := range m.Calls {
			in += len(call.Tool) + len(call.Input)
		}
		for _, result := range m.Results {
			in += len(result.Text)
		}
	}
	for _, tool := range r.Tools {
		in += len(tool.Name) + len(tool.Description) + len(tool.InputSchema)
	}
	out = len(t.Text)
	for _, call := range t.Calls {
		out += len(call.Tool) + len(call.Input)
	}
	return in, out
}

func tokens(bytes, each int) int64 { return int64((bytes + each - 1) / each) }

// Text returns the text that a provider sent, as valid UTF-8.
func Text(sent string) string { return strings.ToValidUTF8(sent, "\uFFFD") }

// InputObject returns the input of an earlier call as a JSON object, because providers accept
// only objects. Other text becomes the string in {"INVALID_JSON": "..."}, so that the model
// receives its own text.
func InputObject(input []byte) json.RawMessage {
	if text := bytes.TrimSpace(input); utf8.Valid(text) && json.Valid(text) && bytes.HasPrefix(text, []byte("{")) {
		return text
	}
	object, err := json.Marshal(map[string]string{"INVALID_JSON": string(input)})
	if err != nil {
		// A map of strings always has a JSON form.
		return json.RawMessage("{}")
	}
	return object
}
