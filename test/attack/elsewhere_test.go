//go:build linux

package attack

import (
	"strings"

	"palyra/internal/core/must"
)

// elsewhereRows are attacks that apply a rule or a grant for sandboxed calls to a call that the
// gateway decides and others run, or the reverse.
func elsewhereRows() []factRow {
	const touch = `{"argv":["touch","made"]}`
	return []factRow{
		{"GW2-13", "rule for the sandbox covers a hook", freeHere, freeElsewhere, func(g *gateway, _ bool) string {
			e := g.entrances()
			return g.denying(func() string { return allowed(e.hook("PreToolUse", "t1", "Bash", `{"command":"make"}`), "allow") })
		}},
		{"GW2-13", "rule for the sandbox covers AuthZEN", freeHere, freeElsewhere, func(g *gateway, _ bool) string {
			return allowed(g.entrances().authzen("process.run", touch), `"decision":true`)
		}},
		{"GW2-13", "rule for calls elsewhere covers the sandbox", freeElsewhere, freeHere, func(g *gateway, _ bool) string {
			e := g.entrances()
			return allowed(g.denying(func() string { return e.call("process.run", touch) }), `"exit_code"`)
		}},
		{"GW2-13", "grant for the sandbox covers AuthZEN", "", "", func(g *gateway, late bool) string {
			e := g.entrances()
			e.grant(late, touch)
			return allowed(e.authzen("process.run", touch), `"decision":true`)
		}},
		{"GW2-13", "grant for AuthZEN covers the sandbox", "", "", func(g *gateway, late bool) string {
			e := g.entrances()
			e.grant(!late, touch)
			return allowed(g.denying(func() string { return e.call("process.run", touch) }), `"exit_code"`)
		}},
	}
}

// allowed replaces a sign of success by the canary.
func allowed(answer, sign string) string { return strings.ReplaceAll(answer, sign, canary) }

// grant gives an approval for all calls of the tool: for a sandboxed call if here is set,
// otherwise for a call that an AuthZEN client asks about.
func (e *entrances) grant(here bool, input string) {
	e.T.Helper()
	standing := []string{"--allow", "timeboxed", "--for", "1h", "--match", "tool"}
	if here {
		e.answering(func() string { return e.call("process.run", input) }, standing...)
		return
	}
	var denied struct {
		Context struct {
			Offer struct {
				Expires string `json:"expires_at"`
				Token   string `json:"binding_token"`
			} `json:"access_request"`
		}
	}
	parse(e.T, e.authzen("process.run", input), &denied)
	offer := denied.Context.Offer
	request := strings.TrimSuffix(evaluation("process.run", input), "}") + `,"denial":{"expires_at":"` + offer.Expires + `","binding_token":"` + offer.Token + `"}}`
	_, text := post(e.api, e.address+"/access/v1/requests", request)
	must.Eventually(e.T, "people are asked", func() (bool, string) { return e.answerAll(standing...) > 0, text })
}
