package call

import (
	"github.com/oklog/ulid/v2"

	"palyra/internal/core/reason"
)

// CheckClientName rejects a client-chosen name of a session or a run that has the form of a
// ULID. The gateway reserves this form for its own runs and their sessions.
func CheckClientName(what, name string) error {
	if _, err := ulid.ParseStrict(name); err == nil {
		return reason.Errorf(reason.InvalidInput, "%s %q has the form of a ULID, which is reserved for runs of the gateway", what, name).
			WithRemedy("Choose another name for the %s, or omit it. To continue a run of the gateway, send it a message over RunStream.", what)
	}
	return nil
}
