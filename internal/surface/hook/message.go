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

// Kind is the kind of a hook's message. Events of other kinds are refused (unknownEvent).
type Kind int

// The kinds. The zero value requires a decision.
const (
	// Before requests permission to run a tool.
	Before Kind = iota
	// After reports that a tool ran; Failed reports that it failed.
	After
	Failed
	// TurnEnd reports that the agent has stopped working, SessionEnd that its session ended.
	TurnEnd
	SessionEnd
)

// Message is a hook's message in the gateway's terms.
type Message struct {
	Kind Kind
	// Event is the agent's own name of the event.
	Event string
	// Session and CallID are the agent's ids of its session and of the call.
	Session, CallID string
	Tool            string
	Input           json.RawMessage
	Response        json.RawMessage
	// Message is the reason why a call failed.
	Message        string
	Cwd            string
	PermissionMode string
	// RequesterReason is the agent's reason for the call; "" if its hook cannot pass one.
	RequesterReason string
	// Busy is true if a part of the turn continues in the background.
	Busy bool
}

// Answer is the gateway's answer to a request to run a call.
type Answer struct {
	Allowed bool
	// Own makes the agent proceed as if it had no hook: the agent also asks its own user.
	Own    bool
	Reason reason.Code
	// Text is the explanation and next step of a denial for a model or its user; with Edited, the
	// notice that approvers changed the call.
	Text string
	// Edited is the input that the call runs with, if approvers changed it.
	Edited json.RawMessage
}

// place identifies the directory and mode in which the agent works in its session. The same
// call from another directory or mode is another call.
func (m *Message) place() string {
	sum := sha256.Sum256([]byte(strings.Join([]string{m.Session, m.Cwd, m.PermissionMode}, "\x00")))
	return "hook-" + hex.EncodeToString(sum[:8])
}

// decode parses JSON strictly: the gateway and the agent could interpret a duplicate member, even
// in another spelling, differently.
func decode(body []byte, into any) error {
	if len(body) > MaxBody {
		return reason.Errorf(reason.InputTooLarge, "the hook's message is larger than %d bytes", MaxBody)
	}
	if err := canonical.Read(body, into); err != nil {
		return reason.Errorf(reason.InvalidInput, "parsing the hook's message: %w", err)
	}
	return nil
}

// unknownEvent returns the error of an event that is not in the agent's list. Any other answer
// would let the tool run if the event was a request.
func unknownEvent(event string) *reason.Error {
	return reason.Errorf(reason.InvalidInput, "the hook's event %q is not supported", event)
}

// check refuses malformed names, so that no two names are confused.
func (m *Message) check() error {
	for what, name := range map[string]string{"session": m.Session, "call id": m.CallID, "tool": m.Tool} {
		switch {
		case len(name) > longestID:
			return reason.Errorf(reason.InvalidInput, "the %s of the hook is longer than %d bytes", what, longestID)
		case strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
			return reason.Errorf(reason.InvalidInput, "the %s of the hook contains a control character", what)
		}
	}
	if m.Session == "" {
		return reason.Errorf(reason.InvalidInput, "the hook's message has no session")
	}
	if (m.Kind == Before || m.Kind == After || m.Kind == Failed) && (m.CallID == "" || m.Tool == "") {
		return reason.Errorf(reason.InvalidInput, "the hook's message has no call id or no tool")
	}
	return nil
}
