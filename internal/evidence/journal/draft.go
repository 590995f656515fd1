package journal

import (
	"fmt"
	"unicode/utf8"

	"palyra/internal/core/canonical"
	"palyra/internal/core/event"
)

// CheckDraft refuses a draft that the format cannot represent: without a code or an actor, with
// text that is not UTF-8, or with a payload that is not a JSON object in RFC 8785 form. Such a
// draft is a bug in the package that created it.
func CheckDraft(d *event.Draft) error {
	if d.Code == "" || d.Actor == "" {
		return fmt.Errorf("event draft %q by %q: code and actor are required", d.Code, d.Actor)
	}
	for _, s := range [...]string{string(d.Code), d.Session, d.Run, d.Actor, d.Subject} {
		if !utf8.ValidString(s) {
			return fmt.Errorf("event draft %s: %q is not UTF-8", d.Code, s)
		}
	}
	if len(d.Payload) == 0 || d.Payload[0] != '{' || !canonical.Is(d.Payload) {
		return fmt.Errorf("payload of %s is not a JSON object in canonical form", d.Code)
	}
	return nil
}
