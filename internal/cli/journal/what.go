package journal

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/event"
)

// told is what payloads hold that says in a few words what happened; each has
// some of it.
type told struct {
	Tool    string `json:"tool"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason"`
	Summary string `json:"summary"`
	State   string `json:"state"`
	Note    string `json:"note"`
	Model   string `json:"model"`
	Stop    string `json:"stop"`
	Verdict struct {
		Effect string `json:"effect"`
	} `json:"verdict"`
	Vote struct {
		Allow  bool   `json:"allow"`
		Scope  string `json:"scope"`
		Reason string `json:"reason"`
	} `json:"vote"`
	Report struct {
		Outcome string `json:"outcome"`
	} `json:"report"`
	Violations []struct {
		Syscall string `json:"syscall"`
	} `json:"violations"`
}

// denied names the system calls that the sandbox denied, each once.
func (t told) denied() string {
	var names []string
	for _, v := range t.Violations {
		if !slices.Contains(names, v.Syscall) {
			names = append(names, v.Syscall)
		}
	}
	return strings.Join(names, " ")
}

// whatHappened says of an event what its payload tells; "" when it is erased
// or tells no more than the event's name.
func whatHappened(e *palyrav1.Event) string {
	var t told
	if json.Unmarshal(e.GetPayloadJson(), &t) != nil {
		return ""
	}
	switch event.Code(e.GetCode()) {
	case event.Proposed:
		return t.Tool
	case event.Asked:
		return cmp.Or(t.Summary, t.Tool)
	case event.Evaluated:
		return t.Verdict.Effect
	case event.Decided, event.Gated:
		return strings.TrimSpace(yesOrNo(t.Allowed) + " " + t.Reason)
	case event.Voted:
		if t.Vote.Allow {
			return strings.TrimSpace("allow " + t.Vote.Scope)
		}
		return strings.TrimSpace("deny " + t.Vote.Reason)
	case event.Attested:
		return t.Report.Outcome
	case event.Violated:
		return t.denied()
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
