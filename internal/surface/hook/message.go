package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
)

// Kind is what a hook tells of. Events of other kinds are refused (unknownEvent).
type Kind int

// The kinds. The zero value is the one that is decided.
const (
	// Before asks whether a tool may run.
	Before Kind = iota
	// After says that it ran; Failed that it did, or tried to, and failed.
	After
	Failed
	// TurnEnd says that the agent has stopped working, SessionEnd that it is gone.
	TurnEnd
	SessionEnd
)

// Message is what a hook says, in the gateway's words.
type Message struct {
	Kind Kind
	// Event is the agent's own name of it.
	Event string
	// Session and CallID are the agent's names of its session and of the call.
	Session, CallID string
	Tool            string
	Input           json.RawMessage
	Response        json.RawMessage
	// Message says why a call failed.
	Message        string
	Cwd            string
	PermissionMode string
	// RequesterReason is why the agent wants the call; "" where it cannot say.
	RequesterReason string
	// Busy says that something of the turn goes on in the background.
	Busy bool
}

// Answer is what the gateway says of a call that may run or not.
type Answer struct {
	Allowed bool
	// Own says that the agent shall go on as if it had not asked: its own user is asked
	// beside.
	Own    bool
	Reason reason.Code
	// Text tells a model, or its user, why not and what next; with Edited, that people
	// changed the call.
	Text string
	// Edited is the input that the call runs with, where people changed it.
	Edited json.RawMessage
}

// place is a name of where, and in which mode, the agent works in its session. The same
// call from somewhere else is another call.
func (m *Message) place() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{m.Session, m.Cwd, m.PermissionMode}, "\x00")))
	return "hook-" + hex.EncodeToString(sum[:8])
}

// decode reads JSON strictly: a member that is there twice, or in two spellings, could mean
// one thing here and another to the agent.
func decode(body []byte, into any) error {
	if len(body) > MaxBody {
		return reason.Errorf(reason.InputTooLarge, "the hook sent more than %d bytes", MaxBody)
	}
	if err := canonical.Read(body, into); err != nil {
		return reason.Errorf(reason.InvalidInput, "the hook did not send the JSON of its agent: %w", err)
	}
	return nil
}

// unknownEvent refuses an event that is not in the agent's list. An answer other than an error
// would let the tool run where the event was meant as a question.
func unknownEvent(event string) *reason.Error {
	return reason.Errorf(reason.InvalidInput, "the hook sent the event %q, which is not known", event)
}

// check refuses what cannot be a name, so that none is taken for another.
func (m *Message) check() error {
	for what, name := range map[string]string{"session": m.Session, "call id": m.CallID, "tool": m.Tool} {
		switch {
		case len(name) > longestID:
			return reason.Errorf(reason.InvalidInput, "the %s of the hook has more than %d bytes", what, longestID)
		case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
			return reason.Errorf(reason.InvalidInput, "the %s of the hook has a control character", what)
		}
	}
	if m.Session == "" {
		return reason.Errorf(reason.InvalidInput, "the hook names no session")
	}
	if (m.Kind == Before || m.Kind == After || m.Kind == Failed) && (m.CallID == "" || m.Tool == "") {
		return reason.Errorf(reason.InvalidInput, "the hook names no call, or no tool")
	}
	return nil
}
