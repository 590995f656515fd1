package ask

import (
	"cmp"
	"fmt"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
)

// GrantUses returns how often a grant was used, and its limit.
func GrantUses(g *palyrav1.Grant) string {
	if g.GetMostUses() > 0 {
		return fmt.Sprintf("%d of %d", g.GetUses(), g.GetMostUses())
	}
	return fmt.Sprint(g.GetUses())
}

// GrantCovers describes the calls that a grant covers. Grants of older releases have no
// description.
func GrantCovers(g *palyrav1.Grant) string {
	if g.GetCovers() != "" {
		return g.GetCovers()
	}
	switch g.GetMatch() {
	case palyrav1.GrantMatch_GRANT_MATCH_TOOL:
		return "any call of " + g.GetTool()
	case palyrav1.GrantMatch_GRANT_MATCH_SUBJECT:
		return g.GetTool() + " with subject " + g.GetSubject()
	}
	return "the same call of " + cmp.Or(g.GetSubject(), g.GetTool())
}

// GrantState is live, revoked, ended or used up.
func GrantState(g *palyrav1.Grant, now time.Time) string {
	switch {
	case g.GetRevokedAt() != nil:
		return "revoked"
	case g.GetExpiresAt() != nil && !now.Before(g.GetExpiresAt().AsTime()):
		return "ended"
	case g.GetMostUses() > 0 && g.GetUses() >= g.GetMostUses():
		return "used up"
	}
	return "live"
}
