package backup

import (
	"fmt"
	"strings"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/identity"
	"palyra/internal/identity/token"
)

// Valid lists the valid credentials: members, devices and tokens. Login sessions are omitted,
// because a restore ends them.
func Valid(members []access.Member, devices []identity.Device, tokens []token.Token) (list []Credential) {
	for _, m := range members {
		if !m.Disabled && !m.Removed() {
			list = append(list, Credential{"member", m.Principal.String(), roles(m), "palyra members disable " + m.Principal.String()})
		}
	}
	for _, d := range devices {
		if !d.Revoked() && !d.Session() {
			list = append(list, Credential{"device", d.ID, fmt.Sprintf("%s, %q since %s", d.Principal, d.Name, day(d.CreatedAt)), "palyra devices revoke " + d.ID})
		}
	}
	for _, t := range tokens {
		if !t.Revoked() {
			list = append(list, Credential{"token", t.ID, fmt.Sprintf("%s, %q until %s", t.Principal, t.Name, day(t.ExpiresAt)), "palyra tokens revoke " + t.ID})
		}
	}
	return list
}

func roles(m access.Member) string {
	var names []string
	for _, r := range m.Roles {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }
