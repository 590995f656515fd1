package notify

import (
	"encoding/json"
	"testing"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// TestKinds: each event of a notice has its kind and severity, and other events have no notice.
func TestKinds(t *testing.T) {
	t.Parallel()
	type told struct {
		kind     Kind
		severity string
	}
	want := map[event.Code]told{
		event.Asked: {ApprovalAsked, "medium"}, event.Answered: {ApprovalDecided, "medium"}, event.Expired: {ApprovalExpired, "medium"}, event.Cancelled: {ApprovalExpired, "medium"},
		event.DeviceAdded: {DeviceEnrolled, "high"}, event.DevicePaired: {DeviceEnrolled, "high"}, event.PresenceKeyRegistered: {PresenceEnrolled, "high"}, event.PasskeyEnrolled: {PresenceEnrolled, "high"},
		event.HookChanged: {HookChanged, "high"}, event.MembersConfirmed: {MembersConfirmed, "high"}, event.Frozen: {Frozen, "critical"}, event.Thawed: {Thawed, "high"}, event.Restored: {Restored, "critical"},
	}
	for _, code := range event.Codes {
		n, is := noticeOf(journal.Event{Code: code, Actor: "user:ann", Payload: json.RawMessage(`{"host":true,"severity":"medium","was":"pending","state":"allowed","entries":[{"state":"changed"}]}`)})
		if w, wanted := want[code]; is != wanted || is && (n.Kind != w.kind || n.Severity != w.severity || n.Text == "") {
			t.Errorf("%s: notice %t, %+v, want %+v", code, is, n, w)
		}
	}
	for name, e := range map[string]journal.Event{
		"a hook that is as it was":   {Code: event.HookChanged, Payload: json.RawMessage(`{"entries":[{"state":"intact"}]}`)},
		"an unused answer":           {Code: event.Expired, Payload: json.RawMessage(`{"was":"allowed"}`)},
		"a member's confirmation":    {Code: event.MembersConfirmed, Payload: json.RawMessage(`{"members":["user:bob"]}`)},
		"a question that was erased": {Code: event.Asked},
		"a delivery":                 {Code: event.Notified, Payload: json.RawMessage(`{}`)},
	} {
		if n, is := noticeOf(e); is {
			t.Errorf("%s has the notice %+v", name, n)
		}
	}
}
