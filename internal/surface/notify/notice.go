package notify

import (
	"encoding/json"

	"slices"
	"strings"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/core/event"
	"palyra/internal/core/text"
	"palyra/internal/evidence/journal"
)

// Kind is what a notice is about.
type Kind string

// The kinds.
const (
	ApprovalAsked   Kind = "approval_asked"
	ApprovalDecided Kind = "approval_decided"
	// ApprovalExpired is also that whoever asked took the question back.
	ApprovalExpired  Kind = "approval_expired"
	DeviceEnrolled   Kind = "device_enrolled"
	PresenceEnrolled Kind = "passkey_enrolled"
	HookChanged      Kind = "hook_changed"
	Frozen           Kind = "frozen"
	Thawed           Kind = "thawed"
	Restored         Kind = "restored"
	// Tested is what `palyra notify test` sends. No target can leave it out.
	Tested Kind = "test"
)

// Kinds are those that a target can choose.
var Kinds = []Kind{
	ApprovalAsked, ApprovalDecided, ApprovalExpired, DeviceEnrolled, PresenceEnrolled, HookChanged, Frozen, Thawed, Restored,
}

// Severities are those of notices, in ascending order.
var Severities = []string{"low", "medium", "high", "critical"}

// rank orders severities; what is none of them is as the highest, so that nobody misses it.
func rank(severity string) int {
	if i := slices.Index(Severities, severity); i >= 0 {
		return i
	}
	return len(Severities) - 1
}

// AtLeast reports whether a severity is not below another.
func AtLeast(severity, least string) bool { return rank(severity) >= rank(least) }

// Notice is one thing that happened.
type Notice struct {
	Kind Kind
	// Seq and At are those of the event, 0 for a test.
	Seq      int64
	At       time.Time
	Severity string
	// Subject is what the event is about: an approval, device or installation.
	Subject string
	// Actor is who caused it.
	Actor string
	// Text says it in one plain sentence, without anything that a model wrote.
	Text string
	// Approval is the record that the notice is about as it is now; nil for others.
	Approval *approval.Record
	// Link leads to where a person looks at it, "" where there is no such place.
	Link string
}

// Closes reports whether the notice is that an approval is open no longer.
func (n Notice) Closes() bool { return n.Kind == ApprovalDecided || n.Kind == ApprovalExpired }

// Summary is the sentence in which the call is described to people. What asked wrote part
// of it.
func (n Notice) Summary() string {
	if n.Approval == nil {
		return ""
	}
	return n.Approval.Prompt.Summary
}

// of makes a notice of an event; false for one that nobody is told of.
func of(e journal.Event) (Notice, bool) {
	n := Notice{Seq: e.Seq, At: e.At, Severity: "high", Subject: e.Subject, Actor: e.Actor}
	switch e.Code {
	case event.Asked, event.Answered, event.Expired, event.Cancelled:
		return n, ofApproval(e, &n)
	case event.DeviceAdded, event.DevicePaired:
		n.Kind, n.Text = DeviceEnrolled, "A member of the gateway got another device."
	case event.PresenceKeyRegistered, event.PasskeyEnrolled:
		n.Kind, n.Text = PresenceEnrolled, "A member got a key that proves that a person is there."
	case event.HookChanged:
		n.Kind, n.Text = HookChanged, "What was installed into an agent is not as it was: it may not ask any more."
		return n, !intactAgain(e.Payload)
	case event.Frozen:
		n.Kind, n.Severity, n.Text = Frozen, "critical", "The gateway is frozen: nothing runs."
	case event.Thawed:
		n.Kind, n.Text = Thawed, "The gateway is thawed: calls run again."
	case event.Restored:
		n.Kind, n.Severity, n.Text = Restored, "critical", "The gateway goes on from a backup: what came after it is lost, and it is frozen."
	default:
		return n, false
	}
	return n, true
}

// ofApproval reads the events of approvals.
func ofApproval(e journal.Event, n *Notice) bool {
	var p struct {
		Severity string         `json:"severity"`
		State    approval.State `json:"state"`
		Was      approval.State `json:"was"`
	}
	if json.Unmarshal(e.Payload, &p) != nil {
		return false // erased, or not ours to read
	}
	n.Severity = p.Severity
	switch {
	case e.Code == event.Asked:
		n.Kind, n.Text = ApprovalAsked, "A call waits for an answer."
	case p.Was != approval.Pending:
		return false // an answer that nobody used
	case e.Code == event.Answered && p.State == approval.Allowed:
		n.Kind, n.Text = ApprovalDecided, "A call was allowed by "+e.Actor+"."
	case e.Code == event.Answered:
		n.Kind, n.Text = ApprovalDecided, "A call was denied by "+e.Actor+"."
	case e.Code == event.Expired:
		n.Kind, n.Text = ApprovalExpired, "Nobody answered a call in time."
	default:
		n.Kind, n.Text = ApprovalExpired, "A call that waited for an answer was taken back."
	}
	return true
}

// plain is a name in one line.
func plain(name string) string {
	return strings.Join(strings.Fields(text.Visible(name)), " ")
}

// intactAgain reports whether all that changed is as it was installed again.
func intactAgain(payload json.RawMessage) bool {
	var p struct {
		Entries []struct {
			State string `json:"state"`
		} `json:"entries"`
	}
	if json.Unmarshal(payload, &p) != nil {
		return false
	}
	for _, e := range p.Entries {
		if e.State != "intact" {
			return false
		}
	}
	return len(p.Entries) > 0
}
