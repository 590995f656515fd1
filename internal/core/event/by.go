package event

import (
	"encoding/json"
	"fmt"

	"palyra/internal/core/canonical"
)

// By returns the draft with the member "by_device" added to its payload: the device of the
// request that caused the event. Without a device, it returns the draft unchanged.
func (d Draft) By(device string) (Draft, error) {
	if device == "" {
		return d, nil
	}
	payload := map[string]json.RawMessage{}
	if err := json.Unmarshal(d.Payload, &payload); err != nil {
		return d, fmt.Errorf("reading the payload of event %s: %w", d.Code, err)
	}
	text, err := json.Marshal(device)
	if err != nil {
		return d, fmt.Errorf("naming the device of event %s: %w", d.Code, err)
	}
	payload["by_device"] = text
	if d.Payload, err = canonical.Marshal(payload); err != nil {
		return d, fmt.Errorf("making event %s: %w", d.Code, err)
	}
	return d, nil
}

// Attributed reports whether the payload names the causing device in "by_device".
func (c Code) Attributed() bool {
	switch c {
	case MemberAdded, MemberChanged, MemberDisabled, MemberEnabled, MemberRemoved, MembersConfirmed,
		DeviceAdded, DeviceRevoked, DeviceRenamed, TokenMade, TokenRevoked,
		PolicyLoaded, CeilingSet, Frozen, Thawed, PresenceKeyRegistered, PresenceKeyReset, PresenceKeyConfirmed, PasskeyEnrolled, PasskeyConfirmed, PasskeyRemoved, HookInstalled, HookUninstalled, ChatUserMapped, ChatUserGone, ChatConsent,
		SkillInstalled, SkillRemoved, SkillChanged, PublisherTrusted, PublisherDistrusted:
		return true
	default:
		return false
	}
}
