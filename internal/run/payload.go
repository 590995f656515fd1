package run

import (
	"encoding/json"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/core/reason"
	"palyra/internal/core/text"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
	"palyra/internal/run/model"
)

// inlineText is the largest text in a journal payload; a larger one is a blob that the payload
// names by digest.
const inlineText = 16 << 10

// longestName bounds the journaled name of a tool, because a model may write any text there.
const longestName = 128

// rowMessage bounds the task in the row of a run, in bytes; the event has the whole task.
const rowMessage = 4 << 10

// StartedPayload is the payload of event.RunStarted.
type StartedPayload struct {
	RunID      string           `json:"run_id"`
	Principal  access.Principal `json:"principal"`
	OnBehalfOf access.Principal `json:"on_behalf_of"`
	DeviceID   string           `json:"device_id"`
	Model      string           `json:"model"`
	Workspace  string           `json:"workspace"`
	// MessageBlob is set instead of Message if it is large.
	Message     string        `json:"message,omitempty"`
	MessageBlob string        `json:"message_blob,omitempty"`
	Interactive bool          `json:"interactive"`
	Budget      BudgetPayload `json:"budget"`
}

// BudgetPayload is the journaled form of a Budget.
type BudgetPayload struct {
	Calls       int   `json:"calls"`
	Tokens      int64 `json:"tokens"`
	WallClockMS int64 `json:"wall_clock_ms"`
}

// MessagePayload is the payload of event.UserMessage.
type MessagePayload struct {
	// TextBlob is set instead of Text if it is large.
	Text     string `json:"text,omitempty"`
	TextBlob string `json:"text_blob,omitempty"`
}

// TurnPayload is the payload of event.ModelTurn. Text and the inputs of calls are blobs; events
// of older gateways contain small texts themselves.
type TurnPayload struct {
	Turn         int               `json:"turn"`
	Text         string            `json:"text,omitempty"`
	TextBlob     string            `json:"text_blob,omitempty"`
	Calls        []TurnCallPayload `json:"calls"`
	Stop         model.Stop        `json:"stop"`
	InputTokens  int64             `json:"input_tokens"`
	OutputTokens int64             `json:"output_tokens"`
	Model        string            `json:"model"`
}

// TurnCallPayload is a call that the model requests.
type TurnCallPayload struct {
	CallID    string `json:"call_id"`
	Tool      string `json:"tool"`
	Input     string `json:"input,omitempty"`
	InputBlob string `json:"input_blob,omitempty"`
}

// FinishedPayload is the payload of event.RunFinished.
type FinishedPayload struct {
	State   State            `json:"state"`
	Reason  reason.Code      `json:"reason,omitempty"`
	Message string           `json:"message,omitempty"`
	Remedy  string           `json:"remedy,omitempty"`
	By      access.Principal `json:"by,omitzero"`
	Usage   UsagePayload     `json:"usage"`
}

// UsagePayload is the journaled form of a Usage.
type UsagePayload struct {
	Calls        int   `json:"calls"`
	Turns        int   `json:"turns"`
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
}

// addEvent adds an event of the run to a write.
func (w *Write) addEvent(code event.Code, r Record, actor string, payload any) error {
	text, err := canonical.Marshal(payload)
	if err != nil {
		return err
	}
	w.Drafts = append(w.Drafts, event.Draft{
		Code: code, Session: r.Session, Run: r.ID, Actor: actor, Subject: r.ID, Payload: text,
	})
	return nil
}

// store returns a text for the event itself or, if it is large, the name of a blob with it.
func (w *Write) store(text string) (inline, blob string) {
	if len(text) <= inlineText {
		return text, ""
	}
	return "", w.addBlob(text)
}

// keep stores a text of the model as a blob: it may quote results of tools, and the journal itself
// is permanent and unencrypted.
func (w *Write) keep(text string) (blob string) {
	if text == "" {
		return ""
	}
	return w.addBlob(text)
}

// startedWrite journals the start of a run with its whole task.
func startedWrite(r Record, task string) (w Write, err error) {
	p := StartedPayload{
		RunID: r.ID, Principal: r.Principal, OnBehalfOf: r.OnBehalfOf, DeviceID: r.Device,
		Model: r.Model, Workspace: r.Workspace, Interactive: r.Interactive,
		Budget: BudgetPayload{Calls: r.Budget.Calls, Tokens: r.Budget.Tokens, WallClockMS: r.Budget.WallClock.Milliseconds()},
	}
	p.Message, p.MessageBlob = w.store(tool.RedactText(task))
	return w, w.addEvent(event.RunStarted, r, r.Principal.String(), p)
}

// messageWrite journals a message of the user.
func messageWrite(r Record, by access.Principal, text string) (w Write, err error) {
	p := MessagePayload{}
	p.Text, p.TextBlob = w.store(tool.RedactText(text))
	return w, w.addEvent(event.UserMessage, r, by.String(), p)
}

// turnWrite journals an answer of the model. tools are the tools that the model received.
func turnWrite(r Record, n int, t model.Turn, tools []tool.Descriptor) (w Write, err error) {
	p := TurnPayload{
		Turn: n, Stop: t.Stop, InputTokens: t.Usage.InputTokens, OutputTokens: t.Usage.OutputTokens, Model: t.Model,
		Calls: make([]TurnCallPayload, len(t.Calls)),
	}
	p.TextBlob = w.keep(tool.RedactText(t.Text))
	for i, c := range t.Calls {
		p.Calls[i] = TurnCallPayload{CallID: c.ID, Tool: text.Clip(tool.RedactText(c.Tool), longestName)}
		p.Calls[i].InputBlob = w.keep(redactInput(c, tools))
	}
	return w, w.addEvent(event.ModelTurn, r, r.Principal.String(), p)
}

// finishedWrite journals the end of a run.
func finishedWrite(r Record) (w Write, err error) {
	actor := journal.Daemon
	if !r.CancelledBy.IsZero() {
		actor = r.CancelledBy.String()
	}
	return w, w.addEvent(event.RunFinished, r, actor, FinishedPayload{
		State: r.State, Reason: r.Reason, Message: r.Detail, Remedy: r.Remedy, By: r.CancelledBy,
		Usage: UsagePayload{
			Calls: r.Usage.Calls, Turns: r.Usage.Turns, InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens,
		},
	})
}

// redactInput returns the model's input without secrets. A tool's SecretPaths can be applied
// only to valid JSON. Other input is withheld if the tool has SecretPaths. The input of an
// unknown tool is always withheld.
func redactInput(c model.Call, tools []tool.Descriptor) string {
	input, err := canonical.JSON(c.Input)
	for _, d := range tools {
		switch {
		case d.Name != c.Tool:
		case err == nil:
			return redactJSON(input, d.SecretPaths)
		case len(d.SecretPaths) == 0:
			return tool.RedactText(string(c.Input))
		}
	}
	if len(c.Input) == 0 {
		return ""
	}
	return tool.Redaction
}

func redactJSON(input json.RawMessage, secretPaths []string) string {
	clean, _, err := tool.Redact(input, secretPaths)
	if err != nil {
		return tool.Redaction
	}
	return string(clean)
}
