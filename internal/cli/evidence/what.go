package evidence

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/decision"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// eventDetails has the members of payloads, except payloads of calls, that describe the event; each
// event has some of them.
type eventDetails struct {
	Tool    string `json:"tool"`
	Reason  string `json:"reason"`
	Summary string `json:"summary"`
	State   string `json:"state"`
	Note    string `json:"note"`
	Model   string `json:"model"`
	Stop    string `json:"stop"`
	Vote    struct {
		Allow  bool   `json:"allow"`
		Scope  string `json:"scope"`
		Reason string `json:"reason"`
	} `json:"vote"`
}

// denied lists the system calls that the sandbox denied, each once.
func denied(list []tool.Violation) string {
	var names []string
	for _, v := range list {
		if !slices.Contains(names, v.Syscall) {
			names = append(names, v.Syscall)
		}
	}
	return strings.Join(names, " ")
}

// whatHappened describes an event by its payload; "" if the payload was erased or adds nothing to
// the event's name.
func whatHappened(e *palyrav1.Event) string {
	code := event.Code(e.GetCode())
	payload, err := record.Decode(&journal.Event{Code: code, Payload: e.GetPayloadJson()})
	if err != nil {
		return ""
	}
	switch p := payload.(type) {
	case *record.Proposed:
		return p.Tool
	case *record.Edited:
		return "by " + p.By
	case *record.Evaluated:
		return p.Verdict.Effect
	case *decision.Record:
		return strings.TrimSpace(yesOrNo(p.Allowed) + " " + string(p.Reason))
	case *record.Gated:
		return strings.TrimSpace(yesOrNo(p.Allowed) + " " + string(p.Reason))
	case *record.Attested:
		return string(p.Report.Outcome)
	case *record.Violated:
		return denied(p.Violations)
	}
	var t eventDetails
	if json.Unmarshal(e.GetPayloadJson(), &t) != nil {
		return ""
	}
	switch code {
	case event.Asked:
		return cmp.Or(t.Summary, t.Tool)
	case event.Voted:
		if t.Vote.Allow {
			return strings.TrimSpace("allow " + t.Vote.Scope)
		}
		return strings.TrimSpace("deny " + t.Vote.Reason)
	case event.Answered:
		return t.State
	case event.RunStarted:
		return "model " + t.Model
	case event.ModelTurn:
		return t.Stop
	case event.RunFinished:
		return strings.TrimSpace(t.State + " " + t.Reason)
	}
	return cmp.Or(t.Reason, t.Note)
}

func yesOrNo(allow bool) string {
	if allow {
		return "allow"
	}
	return "deny"
}
