package record

import (
	"encoding/json"
	"slices"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// Opens reports whether an event allows a call to run. The call is then open until an event for
// which Ends is true. An unreadable decision counts as an allowing one: the call is closed as
// ambiguous later.
func Opens(e *journal.Event) bool {
	if e.Code != event.Decided {
		return false
	}
	var allowed string
	plain := canonical.Members(e.Payload, func(name, value []byte) {
		if string(name) == "allowed" {
			allowed = string(value)
		}
	})
	if plain && (allowed == "true" || allowed == "false") {
		return allowed == "true"
	}
	var decided struct {
		Allowed bool `json:"allowed"`
	}
	return json.Unmarshal(e.Payload, &decided) != nil || decided.Allowed
}

// Decides reports whether the payload of an event.Decided belongs to the decision with an id.
func Decides(payload []byte, id string) (bool, error) {
	var decided struct {
		ID string `json:"decision_id"`
	}
	err := json.Unmarshal(payload, &decided)
	return decided.ID == id, err
}

// Ends reports whether an event ends a call that ran.
func Ends(e *journal.Event) bool { return e.Code == event.Attested || e.Code == event.Ambiguous }

// AtOnce reports whether a call is decided and attested in one unit: such a call is never open.
func AtOnce(unit []event.Draft, call string) bool {
	has := func(code event.Code) bool {
		return slices.ContainsFunc(unit, func(d event.Draft) bool { return d.Code == code && d.Subject == call })
	}
	return has(event.Decided) && has(event.Attested)
}
