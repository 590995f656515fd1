package dualcontrol

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"palyra/internal/call/dualcontrol"
	"palyra/internal/call/policy"
	"palyra/internal/call/policyadmin"
	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/change"
	"palyra/internal/surface/api"
)

// Proposer prepares policy sets for activation.
type Proposer interface {
	Propose(ctx context.Context, by access.Caller, version string) (policyadmin.Proposal, error)
	Enact(ctx context.Context, by access.Caller, p policyadmin.Proposal) (policyadmin.Reloaded, error)
	// CheckCeiling returns an error if a ceiling cannot be set. Otherwise it reports whether the
	// ceiling would change anything.
	CheckCeiling(by access.Caller, c policyadmin.Ceiling) (changes bool, err error)
}

// Policies are policies whose activation requires a second person.
type Policies struct {
	api.Policies
	Proposer Proposer
	Gate     *dualcontrol.Gate
}

// Activate puts a stored version in force.
func (p Policies) Activate(ctx context.Context, by access.Caller, version string) (policyadmin.Reloaded, error) {
	return p.change(ctx, by, change.ActivatePolicy, version)
}

// Reload puts the policy directory in force.
func (p Policies) Reload(ctx context.Context, by access.Caller) (policyadmin.Reloaded, error) {
	return p.change(ctx, by, change.ReloadPolicy, "")
}

// SetCeiling admits a principal or a channel, or excludes it. An exclusion requires no second
// person, so that a member can act on a danger at once.
func (p Policies) SetCeiling(ctx context.Context, by access.Caller, c policyadmin.Ceiling) (set policyadmin.Ceiling, err error) {
	if !c.Allowed {
		return p.Policies.SetCeiling(ctx, by, c)
	}
	set, err = propose[policyadmin.Ceiling](ctx, p.Gate, by, func(context.Context) (*dualcontrol.Plan, error) {
		changes, err := p.Proposer.CheckCeiling(by, c)
		if err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: change.LetIn, Needs: access.PermAccessWrite, Nothing: !changes,
			Question: dualcontrol.Question{
				ID: "ceiling:" + c.Name, Title: "Admit " + c.Name, Summary: "Admit " + c.Name + "; policies still decide its permissions.",
				Details: map[string]any{"name": c.Name, "reason": c.Reason}, Rule: dualcontrol.Rule{Owner: !strings.HasPrefix(c.Name, "channel:")},
			},
			Make: func(ctx context.Context) (any, error) { return p.Policies.SetCeiling(ctx, by, c) },
		}, nil
	})
	for _, is := range p.Ceilings() {
		if err == nil && set.Name == "" && is.Name == c.Name { // the plan changed nothing
			set = is
		}
	}
	return set, err
}

func (p Policies) change(ctx context.Context, by access.Caller, kind change.Kind, version string) (policyadmin.Reloaded, error) {
	return propose[policyadmin.Reloaded](ctx, p.Gate, by, func(ctx context.Context) (*dualcontrol.Plan, error) {
		proposal, err := p.Proposer.Propose(ctx, by, version)
		if err != nil {
			return nil, err
		}
		return &dualcontrol.Plan{
			Kind: kind, Needs: access.PermPolicyActivate, Nothing: !proposal.Changes(), Question: policyQuestion(proposal),
			Make: func(ctx context.Context) (any, error) { return p.Proposer.Enact(ctx, by, proposal) },
		}, nil
	})
}

// policyQuestion returns the question about a policy set. The version is the digest of the texts.
func policyQuestion(p policyadmin.Proposal) dualcontrol.Question {
	title, from := "Put another policy set in force", "the policy directory"
	if p.Activated {
		from = "a stored version"
	}
	type file struct {
		Name   string `json:"name"`
		Digest string `json:"sha256"`
	}
	files := []file{}
	for _, s := range p.Sources {
		files = append(files, file{s.Name, canonical.Digest([]byte(s.Text))})
	}
	return dualcontrol.Question{
		ID: "policy:" + p.Version, Title: title, Diff: difference(p.WasSources, p.Sources),
		Summary: fmt.Sprintf("%s, from %s: %s in place of %s.", title, from, short(p.Version), short(p.Was)),
		Details: map[string]any{"policy_version": p.Version, "was_version": p.Was, "activated": p.Activated, "files": files},
	}
}

func short(version string) string {
	const digits = 12
	_, hex, _ := strings.Cut(version, ":")
	return hex[:min(len(hex), digits)]
}

// difference returns a unified diff of policies, file by file.
func difference(before, after []policy.Source) string {
	texts := func(list []policy.Source) map[string]string {
		m := map[string]string{}
		for _, s := range list {
			m[s.Name] = s.Text
		}
		return m
	}
	was, is := texts(before), texts(after)
	var names []string
	for _, s := range slices.Concat(before, after) {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range slices.Compact(names) {
		_, hunks, _ := bytes.Cut(diff.Diff("a/"+name, []byte(was[name]), "b/"+name, []byte(is[name])), []byte("\n"))
		b.Write(hunks)
	}
	return b.String()
}

// Gateway is a gateway whose thaw requires a second person.
type Gateway struct {
	api.Gateway
	// Frozen returns the state of the freeze.
	Frozen func(context.Context) api.FreezeState
	Gate   *dualcontrol.Gate
}

// Thaw ends the freeze.
func (g Gateway) Thaw(ctx context.Context, by access.Caller) (api.FreezeState, error) {
	return propose[api.FreezeState](ctx, g.Gate, by, func(ctx context.Context) (*dualcontrol.Plan, error) {
		f := g.Frozen(ctx)
		return &dualcontrol.Plan{
			Kind: change.Thaw, Needs: access.PermGatewayThaw, Nothing: !f.Frozen,
			Question: dualcontrol.Question{
				ID: "thaw", Title: "End the freeze", Summary: fmt.Sprintf("End the freeze of %s: calls run again.", f.By),
				Details: map[string]any{"frozen_by": f.By, "since": f.At, "reason": f.Reason},
			},
			Make: func(ctx context.Context) (any, error) { return g.Gateway.Thaw(ctx, by) },
		}, nil
	})
}
