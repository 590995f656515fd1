package policy

import (
	"context"
	"slices"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/call/policy"
	"palyra/internal/cli/client"
)

// standing is whether files are in force at a gateway.
type standing struct {
	inForce bool
	// text says so, and what the gateway reads.
	text string
}

// standingOf compares files with those in force. It is their text that counts:
// the gateway may run elsewhere.
func standingOf(ctx context.Context, g *client.Gateway, sources []policy.Source) standing {
	v, err := g.Policy.GetPolicy(ctx, &palyrav1.GetPolicyRequest{})
	if err != nil {
		return standing{text: "whether they are in force is not known: " + client.Explain(nil, err).Message}
	}
	d := v.GetDirectory()
	if !slices.ContainsFunc(sources, func(s policy.Source) bool { return !running(v, s.Text) }) {
		return standing{true, "in force at the gateway: " + client.PolicyDirectory(d)}
	}
	return standing{text: "not in force at the gateway: " + client.PolicyDirectory(d)}
}

func running(v *palyrav1.GetPolicyResponse, text string) bool {
	return slices.ContainsFunc(v.GetSources(), func(s *palyrav1.PolicySource) bool { return s.GetText() == text })
}

// standingHere is what is known of files without a gateway: what palyrad would
// read with the configuration of this machine.
func (a *app) standingHere() standing {
	where := a.configuredDir()
	if where == "" {
		where = "no policy directory"
	}
	return standing{text: "no gateway was asked whether they are in force; with this configuration palyrad reads " + where}
}
