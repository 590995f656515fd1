package hook

import (
	"encoding/json"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

// generic is any agent that can start a program before and after its tools. It describes its tools
// in the gateway's own format, which `palyra hook schema` prints.
var generic = Agent{
	Name: "generic", read: readGeneric, answer: answerGeneric,
	reasonBy: "Repeat the request with a new id and the reason as requester_reason.",
	rows: []row{
		{hook: []string{"read"}, name: "read", act: tool.ActRead, caps: reads, paths: []string{"path"}},
		{hook: []string{"write"}, name: "write", act: tool.ActWrite, caps: writes, paths: []string{"path"}},
		{hook: []string{"shell"}, name: "shell", act: tool.ActShell, caps: executes, line: "command", open: true},
		{hook: []string{"input"}, name: "input", act: tool.ActInput, caps: executes, line: "text", open: true},
		{hook: []string{"fetch"}, name: "fetch", act: tool.ActFetch, caps: network, urls: []string{"url"}, open: true},
	},
}

type genericMessage struct {
	Event          string          `json:"event"`
	Session        string          `json:"session"`
	Call           string          `json:"call"`
	Tool           string          `json:"tool"`
	Input          json.RawMessage `json:"input"`
	Result         json.RawMessage `json:"result"`
	Error          string          `json:"error"`
	Cwd            string          `json:"cwd"`
	PermissionMode string          `json:"permission_mode"`
	Why            string          `json:"requester_reason"`
}

// genericEvents are all events of this protocol.
var genericEvents = map[string]Kind{"before": Before, "after": After, "failed": Failed, "turn_end": TurnEnd, "session_end": SessionEnd}

func readGeneric(body []byte) (*Message, error) {
	var g genericMessage
	if err := decode(body, &g); err != nil {
		return nil, err
	}
	kind, ok := genericEvents[g.Event]
	if !ok {
		return nil, unknownEvent(g.Event).WithRemedy("Run `palyra hook schema` for the supported events.")
	}
	m := &Message{
		Kind: kind, Event: g.Event, Session: g.Session, CallID: g.Call, Tool: g.Tool, Input: g.Input, Response: g.Result, Message: g.Error,
		Cwd: g.Cwd, PermissionMode: g.PermissionMode, RequesterReason: g.Why,
	}
	return m, m.check()
}

type genericAnswer struct {
	Decision string      `json:"decision"`
	Code     reason.Code `json:"code,omitempty"`
	Reason   string      `json:"reason,omitempty"`
}

func answerGeneric(m *Message, a Answer) []byte {
	out := genericAnswer{"deny", a.Reason, a.Text}
	switch {
	case m != nil && m.Kind != Before:
		out = genericAnswer{Decision: "none"}
	case a.Allowed:
		out = genericAnswer{Decision: "allow"}
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic("hook: an answer of texts cannot be written: " + err.Error())
	}
	return text
}
