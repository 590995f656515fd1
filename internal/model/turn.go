package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"palyra/internal/reason"
)

// MaxTurn bounds the text and the inputs of one turn, in bytes.
const MaxTurn = 8 << 20

// Meter measures a turn while it comes. The zero Meter is ready.
type Meter struct{ size int }

// Add counts a part and fails when the turn has become too large.
func (m *Meter) Add(bytes int) error {
	if m.size += bytes; m.size > MaxTurn {
		return reason.Errorf(reason.ModelInvalid, "the model's turn is larger than %d MiB", MaxTurn>>20).
			WithRemedy("Set max_output_tokens of the model in palyra.toml.")
	}
	return nil
}

// CallSize is what a call counts beside what it holds, in bytes.
const CallSize = 256

// Finish completes a turn whose stream has ended as it should: it keeps what
// Turn promises of the calls, and counts tokens where the provider did not.
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
	if t.Usage == (Usage{}) {
		t.Usage = estimate(r, t)
	}
	return t
}

// identify sees to it that the ids of calls are unique within the conversation
// and fit to be sent back: some servers send none, or the same in every turn.
func identify(conversation []Message, calls []Call) {
	used := make(map[string]bool)
	for _, m := range conversation {
		for _, call := range m.Calls {
			used[call.ID] = true
		}
	}
	for i := range calls {
		id := calls[i].ID
		for n := len(used); id == "" || len(id) > 128 || used[id] || strings.ContainsFunc(id, unfitInID); n++ {
			id = fmt.Sprintf("call_%d", n)
		}
		calls[i].ID, used[id] = id, true
	}
}

func unfitInID(r rune) bool { return r <= ' ' || r > '~' }

// bytesPerToken is low for English text, so that an estimate is rather too high
// than too low.
const bytesPerToken = 3

func estimate(r Request, t Turn) Usage {
	in := len(r.System)
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
	out := len(t.Text)
	for _, call := range t.Calls {
		out += len(call.Tool) + len(call.Input)
	}
	return Usage{InputTokens: tokens(in), OutputTokens: tokens(out), Estimated: true}
}

func tokens(bytes int) int64 { return int64(bytes+bytesPerToken-1) / bytesPerToken }

// InputObject is the input of an earlier call in the form that the providers
// take back, a JSON object. An input that is none is put into one, so that the
// model sees what it wrote.
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
