package builtin

import (
	"context"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/exec/program/envsecret"
)

const listSecretsName = "secrets.list"

// listSecrets lists the secrets that a caller's calls may use by placeholder.
type listSecrets struct {
	lender  Lender
	known   []egress.Secret
	version string
}

// mostListed is the maximum number of listed secrets.
const mostListed = 1000

func tooMany() error {
	return reason.Errorf(reason.QuotaExceeded, "more than %d secrets exist, which is the limit of a list", mostListed).
		WithRemedy("Remove secrets that are not needed, or move them into narrower scopes: `palyra vault list`.")
}

// listedSecret is a secret for use by placeholder. A program reads its placeholder from the
// variable; http.fetch takes the listed placeholder.
type listedSecret struct {
	Name        string   `json:"name"`
	Placeholder string   `json:"placeholder"`
	Header      string   `json:"header"`
	Hosts       []string `json:"hosts"`
	Env         string   `json:"env"`
	Note        string   `json:"note"`
}

// listedInjection is a secret that a program may receive as a plain value.
type listedInjection struct {
	Secret string `json:"secret"`
	Env    string `json:"env"`
	File   string `json:"file"`
	Note   string `json:"note"`
}

func (listSecrets) Descriptor() tool.Descriptor {
	return tool.Descriptor{
		Name: listSecretsName, Title: "List usable secrets",
		Description: "List the credentials that you may use without seeing them: the placeholder of each, the one header that it belongs into, and the hosts that it is for. " +
			"http.fetch takes the placeholder in that header, regardless of its name, alone or after a scheme such as Bearer; a program finds a placeholder of its own in the variable env. " +
			"Under injectable are secrets that a program can have as they are, if process.run names them in secrets and a person says yes: in the variable env, or in the file, whose path env then has.",
		InputSchema:  schema(``),
		Capabilities: []tool.Capability{}, Executor: tool.Builtin, ReadOnly: true,
	}
}

func (l listSecrets) Plan(context.Context, tool.Proposal) (tool.Plan, error) {
	return tool.Plan{
		Facts:   tool.Facts{SandboxTier: "builtin", SandboxLevel: "none"},
		Preview: tool.Preview{Summary: "List the secrets that calls may use without seeing them."},
		Subject: listSecretsName,
	}, nil
}

// Prepare holds no resources.
func (l listSecrets) Prepare(ctx context.Context, p tool.Proposal) (tool.Prepared, error) {
	plan, err := l.Plan(ctx, p)
	return tool.Prepared{Plan: plan, Run: l.run}, err
}

func (l listSecrets) run(ctx context.Context, c tool.Call) tool.Report {
	report := begin(l.version)
	usable, injectable := slices.Clone(l.known), []listedInjection{}
	if l.lender != nil {
		offers, more, err := l.lender.Offers(ctx, c.Proposal, mostListed, func(egress.Secret) bool { return true })
		if err != nil {
			return report.Fail(ctx, err)
		}
		usable = append(usable, offers...)
		if more {
			return report.Fail(ctx, tooMany())
		}
		injections, err := l.lender.Injectables(ctx, c.Proposal)
		if err != nil {
			return report.Fail(ctx, err)
		}
		for _, i := range injections {
			i = envsecret.Inside(i)
			injectable = append(injectable, listedInjection{Secret: i.Secret, Env: i.Env, File: i.File, Note: i.Note})
		}
	}
	slices.SortFunc(usable, func(a, b egress.Secret) int { return strings.Compare(a.Name, b.Name) })
	if len(usable) > mostListed {
		return report.Fail(ctx, tooMany())
	}
	placeholders := secret.New("", usable)
	listed := make([]listedSecret, len(usable))
	for i, s := range usable {
		listed[i] = listedSecret{
			Name: s.Name, Placeholder: placeholders.Placeholder(s.Name), Header: strings.ToLower(s.Header), Hosts: s.Reach(), Env: s.Env, Note: s.Note,
		}
	}
	return report.Succeed(map[string]any{"secrets": listed, "injectable": injectable})
}
