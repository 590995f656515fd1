package people

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"palyra/internal/call/approval"
	"palyra/internal/call/dualcontrol"
	"palyra/internal/core/access"
	"palyra/internal/identity"
	"palyra/internal/identity/pairing"
)

// answerWithin is how long people have to allow a device. The pairing machine waits for that time.
const answerWithin = 15 * time.Minute

// Asker requests approvals of type device_pairing.
type Asker struct {
	Gate    *dualcontrol.Gate
	Members Members
}

var _ pairing.Approvals = Asker{}

// pairingDetails is the JSON that people see. Their answer is bound to it.
type pairingDetails struct {
	Code       string           `json:"pairing_id"`
	Kind       pairing.Kind     `json:"kind"`
	Comparison string           `json:"comparison"`
	Member     access.Principal `json:"member"`
	New        bool             `json:"new_member"`
	Roles      []access.Role    `json:"roles"`
	Owner      access.Principal `json:"owner"`
	DeviceID   string           `json:"device_id"`
	Name       string           `json:"device_name"`
	KeySHA256  string           `json:"key_sha256"`
	Address    string           `json:"address"`
	Guesses    int              `json:"guesses"`
}

// Ask implements pairing.Approvals.
func (a Asker) Ask(ctx context.Context, c pairing.Code, stands func(approvalID string)) (pairing.Consent, error) {
	p := c.For
	roles := rolesOf(a.Members, p)
	by := access.Caller{Principal: p.MadeBy, OnBehalfOf: p.MadeBy, Surface: access.SurfaceGRPC}
	rule, err := a.Gate.PairingRule(own(p), powerful(a.Members, p), by)
	if err != nil {
		return nil, err
	}
	q := dualcontrol.Question{
		Type: approval.SubjectDevicePairing, ID: "device:" + p.DeviceID,
		Title: "Pair a device", Summary: summary(c, roles), Notes: notes(c),
		Details: pairingDetails{
			Code: c.ID, Kind: c.Kind, Comparison: c.Comparison, Member: p.Member, New: p.New, Roles: roles, Owner: p.Owner,
			DeviceID: p.DeviceID, Name: p.Name, KeySHA256: c.KeySHA256, Address: c.Address, Guesses: c.Guesses,
		},
		Requester: by, Rule: rule, Timeout: answerWithin,
	}
	yes, err := a.Gate.Ask(ctx, q, func(r *approval.Record) { stands(r.ID) })
	if err != nil {
		return nil, err
	}
	return yes, nil
}

// summary returns the question as one sentence.
func summary(c pairing.Code, roles []access.Role) string {
	p := c.For
	names := make([]string, len(roles))
	for i, r := range roles {
		names[i] = string(r)
	}
	what := "another device of " + p.Member.String()
	switch {
	case p.New && !p.Owner.IsZero():
		what = fmt.Sprintf("the new %s of %s", p.Member, p.Owner)
	case p.New:
		what = "the new " + p.Member.String()
	}
	return fmt.Sprintf("Issue a certificate for %s (%s) to the device that shows %s?", what, strings.Join(names, ", "), c.Comparison)
}

func notes(c pairing.Code) []string {
	list := []string{
		"comparison code: " + c.Comparison + "; if the device shows another code, the connection is intercepted: deny it",
		"from " + c.Address, "key " + c.KeySHA256,
	}
	if c.For.Name != "" {
		list = append(list, "the device states the name "+fmt.Sprintf("%q", c.For.Name))
	}
	if wrong := c.Guesses - 1; wrong > 0 {
		list = append(list, fmt.Sprintf("earlier wrong guesses of this code: %d", wrong))
	}
	return list
}

// own reports whether a user pairs another device of their own.
func own(p identity.Pairing) bool {
	return !p.New && p.Member == p.MadeBy && p.Member.Kind == access.KindUser
}

// rolesOf returns the roles that a device will have.
func rolesOf(members Members, p identity.Pairing) []access.Role {
	roles := slices.Clone(p.Roles)
	if m, known := pairedMember(members, p.Member.String()); known && !p.New {
		roles = slices.Clone(m.Roles)
	}
	return roles
}

// powerful reports whether a device is for an owner or admin.
func powerful(members Members, p identity.Pairing) bool {
	roles := rolesOf(members, p)
	return slices.Contains(roles, access.RoleOwner) || slices.Contains(roles, access.RoleAdmin)
}
