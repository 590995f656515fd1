package evidence

import (
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/event"
)

func TestWhatHappened(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		code    event.Code
		payload string
		want    string
	}{
		{event.Decided, `{"allowed":true}`, "allow"},
		{event.Decided, `{"allowed":false,"reason":"POLICY_DENIED"}`, "deny POLICY_DENIED"},
		{event.Proposed, `{"tool":"echo"}`, "echo"},
		{event.Refused, `{"tool":"echo","reason":"INVALID_INPUT"}`, "INVALID_INPUT"},
		{event.Attested, `{"report":{"outcome":"failed"}}`, "failed"},
		{event.Voted, `{"vote":{"allow":false,"reason":"no"}}`, "deny no"},
		{event.Decided, ``, ""},
	} {
		if got := whatHappened(&palyrav1.Event{Code: string(c.code), PayloadJson: []byte(c.payload)}); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.code, c.payload, got, c.want)
		}
	}
}
