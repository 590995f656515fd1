package policy

import (
	"context"
	"slices"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/cli/client"
)

// standing reports whether files are in force at a gateway.
type standing struct {
	inForce bool
	// pending is true if the change to these files waits for a second person.
	pending bool
	// text describes the state, with the directory that the gateway reads.
	text string
}

// standingOf compares the text of files with those in force, because the gateway may run on another
// machine.
func standingOf(ctx context.Context, g *client.Gateway, sources []policy.Source) standing {
	v, err := g.Policy.GetPolicy(ctx, &palyrav1.GetPolicyRequest{})
	if err != nil {
		return standing{text: "whether they are in force is not known: " + client.Explain(nil, err).Message}
	}
	d := v.GetDirectory()
	if !slices.ContainsFunc(sources, func(s policy.Source) bool { return !running(v, s.Text) }) {
		return standing{inForce: true, text: "in force at the gateway: " + client.PolicyDirectory(d)}
	}
	return standing{text: "not in force at the gateway: " + client.PolicyDirectory(d)}
}

func running(v *palyrav1.GetPolicyResponse, text string) bool {
	return slices.ContainsFunc(v.GetSources(), func(s *palyrav1.PolicySource) bool { return s.GetText() == text })
}

// standingHere returns the state of files without a gateway. It names the directory that
// palyrad would read with the configuration of this machine.
func (a *draftCommands) standingHere() standing {
	where := a.configuredDir()
	if where == "" {
		where = "no policy directory"
	}
	return standing{text: "no gateway was asked whether they are in force; with this configuration palyrad reads " + where}
}
