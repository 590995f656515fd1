//go:build linux

package attack

import (
	"path/filepath"
	"strings"
)

// ownershipRows are attacks by a caller who has another member's former name, or controls
// something that acts for another member.
func ownershipRows() []factRow {
	return []factRow{
		{"GW2-07", "account mapped to a member that the mapper made", unattended, unattended, func(g *gateway, late bool) string {
			member, credentials := "user:local", ""
			if late {
				member, credentials = "user:bob", g.member("bob", "operator")
			}
			g.palyra("notify", "slack", "map", "T0001/U0001", member)
			if late { // the host created bob's credential and kept a copy
				g.palyra("--credentials", credentials, "notify", "slack", "consent", "T0001/U0001")
			}
			return g.votes()
		}},
		{"GW2-07", "account mapped to another member without consent", unattended, unattended, func(g *gateway, late bool) string {
			member := "user:local"
			if late {
				g.member("bob", "operator")
				member = "user:bob"
			}
			g.palyra("notify", "slack", "map", "T0001/U0001", member)
			return g.votes()
		}},
		{"GW2-08", "secret of an agent for its new owner", unattended, unattended, func(g *gateway, late bool) string {
			return g.inherits(late, false)
		}},
		{"GW2-08", "secret of an agent for its first owner after two changes", unattended, unattended, func(g *gateway, late bool) string {
			return g.inherits(late, true)
		}},
	}
}

// votes returns the canary if the Slack user can vote.
func (g *gateway) votes() string {
	if strings.Contains(g.palyra("notify", "slack", "list", "-o", "json").Out, `"consented_at": "`) {
		return canary
	}
	return ""
}

// inherits moves an agent to another owner, who reveals its secret. If back is set, the agent
// then moves back to the first owner. In the control, the owner changes before the secret is
// stored.
func (g *gateway) inherits(late, back bool) string {
	bob := g.member("bob", "developer")
	g.palyra("members", "add", "helper", "--role", "agent", "--owner", "user:local", "--out", filepath.Join(g.Dir, "helper"))
	value := filepath.Join(g.Dir, "value")
	g.write(value, canary)
	reader := []string{"--credentials", bob}
	change := func() { g.palyra("members", "owner", "agent:helper", "user:bob") }
	if back {
		reader, change = nil, func() {
			g.palyra("members", "owner", "agent:helper", "user:bob")
			g.palyra("members", "owner", "agent:helper", "user:local")
		}
	}
	put := func(as []string) {
		g.palyra(append(as, "vault", "put", "vault://agent:helper/key", "--file", value)...)
	}
	if late {
		put(nil)
	}
	change()
	if !late {
		put(reader)
	}
	r := g.palyra(append(reader, "vault", "get", "--reveal", "vault://agent:helper/key")...)
	return r.Out + r.Err
}
