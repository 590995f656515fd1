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

// Kind is the kind of a notice.
type Kind string

// The kinds of notices.
const (
	ApprovalAsked   Kind = "approval_asked"
	ApprovalDecided Kind = "approval_decided"
	// ApprovalExpired also covers a question that its requester withdrew.
	ApprovalExpired  Kind = "approval_expired"
	DeviceEnrolled   Kind = "device_enrolled"
	PresenceEnrolled Kind = "passkey_enrolled"
	// MembersConfirmed is a confirmation by the administrator of the gateway's host.
	MembersConfirmed Kind = "members_confirmed"
	HookChanged      Kind = "hook_changed"
	Frozen           Kind = "frozen"
	Thawed           Kind = "thawed"
	Restored         Kind = "restored"
	// Tested is the notice of `palyra notify test`. Every target receives it.
	Tested Kind = "test"
)

// Kinds are the kinds that a target can select.
var Kinds = []Kind{
	ApprovalAsked, ApprovalDecided, ApprovalExpired, DeviceEnrolled, PresenceEnrolled, MembersConfirmed, HookChanged, Frozen, Thawed, Restored,
}

// Severities are the severities of notices, in ascending order.
var Severities = []string{"low", "medium", "high", "critical"}

// rank returns the position of a severity. An unknown severity ranks highest, so that it is not
// filtered out.
func rank(severity string) int {
	if i := slices.Index(Severities, severity); i >= 0 {
		return i
	}
	return len(Severities) - 1
}

// AtLeast reports whether a severity is at least another.
func AtLeast(severity, least string) bool { return rank(severity) >= rank(least) }

// Notice is an event that people are notified of.
type Notice struct {
	Kind Kind
	// Seq and At are the sequence number and the time of the event. Seq is 0 for a test.
	Seq      int64
	At       time.Time
	Severity string
	// Subject is the object of the event: an approval, device or installation.
	Subject string
	// Actor is the principal that caused the event.
	Actor string
	// Text is one plain sentence. It contains no text of a model.
	Text string
	// Approval is the current record of the approval; nil for other notices.
	Approval *approval.Record
	// Link is the console page of the object, "" if none exists.
	Link string
}

// Closes reports whether the notice ends an open approval.
func (n Notice) Closes() bool { return n.Kind == ApprovalDecided || n.Kind == ApprovalExpired }

// Summary returns the description of the call. The requester wrote part of it.
func (n Notice) Summary() string {
	if n.Approval == nil {
		return ""
	}
	return n.Approval.Prompt.Summary
}

// noticeOf returns the notice of an event, or false if people are not notified of it.
func noticeOf(e journal.Event) (Notice, bool) {
	n := Notice{Seq: e.Seq, At: e.At, Severity: "high", Subject: e.Subject, Actor: e.Actor}
	switch e.Code {
	case event.Asked, event.Answered, event.Expired, event.Cancelled:
		return n, ofApproval(e, &n)
	case event.DeviceAdded, event.DevicePaired:
		n.Kind, n.Text = DeviceEnrolled, "A device was added to a member of the gateway."
	case event.PresenceKeyRegistered, event.PasskeyEnrolled:
		n.Kind, n.Text = PresenceEnrolled, "A member enrolled a key that proves presence."
	case event.MembersConfirmed:
		n.Kind, n.Text = MembersConfirmed, "The gateway's host confirmed that members are independent persons."
		return n, byHost(e.Payload)
	case event.HookChanged:
		n.Kind, n.Text = HookChanged, "The Palyra hook of an agent was changed: the agent may run calls without a decision."
		return n, !intactAgain(e.Payload)
	case event.Frozen:
		n.Kind, n.Severity, n.Text = Frozen, "critical", "The gateway is frozen: no calls run."
	case event.Thawed:
		n.Kind, n.Text = Thawed, "The gateway is thawed: calls run again."
	case event.Restored:
		n.Kind, n.Severity, n.Text = Restored, "critical", "The gateway was restored from a backup and is frozen. Later changes are lost."
	default:
		return n, false
	}
	return n, true
}

// ofApproval completes the notice of an event of an approval.
func ofApproval(e journal.Event, n *Notice) bool {
	var p struct {
		Severity string         `json:"severity"`
		State    approval.State `json:"state"`
		Was      approval.State `json:"was"`
	}
	if json.Unmarshal(e.Payload, &p) != nil {
		return false // the payload was erased, or has an unknown form
	}
	n.Severity = p.Severity
	switch {
	case e.Code == event.Asked:
		n.Kind, n.Text = ApprovalAsked, "A call is waiting for an approval."
	case p.Was != approval.Pending:
		return false // the approval was already answered, and expired unused
	case e.Code == event.Answered && p.State == approval.Allowed:
		n.Kind, n.Text = ApprovalDecided, "A call was allowed by "+e.Actor+"."
	case e.Code == event.Answered:
		n.Kind, n.Text = ApprovalDecided, "A call was denied by "+e.Actor+"."
	case e.Code == event.Expired:
		n.Kind, n.Text = ApprovalExpired, "The approval of a call expired without an answer."
	default:
		n.Kind, n.Text = ApprovalExpired, "A call that was waiting for an approval was withdrawn."
	}
	return true
}

// plain returns a name as a single line.
func plain(name string) string {
	return strings.Join(strings.Fields(text.Visible(name)), " ")
}

// byHost reports whether the administrator of the gateway's host confirmed members. A confirmation
// with a reason was made by an upgrade and does not count.
func byHost(payload json.RawMessage) bool {
	var p struct {
		Host bool `json:"host"`
	}
	return json.Unmarshal(payload, &p) == nil && p.Host
}

// intactAgain reports whether all changed entries are intact again.
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
