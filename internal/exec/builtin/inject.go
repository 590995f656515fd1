package builtin

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/sandbox"
)

// checkSecrets resolves the secrets that the call names, and refuses a call in which a value
// could leave the run without a check.
func (t process) checkSecrets(ctx context.Context, p tool.Proposal, c *programCall) error {
	if len(c.in.Secrets) == 0 {
		return nil
	}
	switch {
	case t.lender == nil:
		return reason.Errorf(reason.InvalidInput, "this gateway has no secrets for programs").WithField("pointer", "/secrets").WithRemedy("Omit secrets.")
	case runtime.GOOS != "linux":
		return reason.Errorf(reason.SandboxUnavailable, "programs cannot receive secrets on this platform").
			WithRemedy("Omit secrets. Secrets with hosts are used by their placeholders.")
	case c.mode == sandbox.Direct:
		return reason.Errorf(reason.InvalidInput, "a program that writes to the workspace directly cannot receive secrets: its writes could not be checked for them").
			WithField("pointer", "/secrets").WithRemedy("Ask for read_only or dry_run, or use a workspace in which programs work on a copy.")
	}
	for _, name := range c.in.Secrets {
		i, err := t.lender.Injectable(ctx, p, name)
		if err != nil {
			return err
		}
		if i.File != "" && t.tier() != string(sandbox.TierC) {
			return sandbox.NoSecretFiles()
		}
		i.Within = c.limits.Wall.String()
		list, refused := envsecret.Place(c.injections, i, c.env, c.grant.Secrets)
		if refused != nil {
			return refused.WithField("pointer", "/secrets")
		}
		c.injections = list
	}
	slices.SortFunc(c.injections, func(a, b tool.Injection) int { return strings.Compare(a.Secret, b.Secret) })
	// Data in a cache is readable for later programs and is not checked for secrets.
	c.caches = nil
	return nil
}

// injectionNotes are displayed to the approver.
func (c programCall) injectionNotes() []string {
	var notes []string
	for _, i := range c.injections {
		notes = append(notes, fmt.Sprintf("The program receives the secret vault://%s as a plain value, which is asked separately. Its output is scrubbed of it.", i.Secret))
	}
	return notes
}

// inject leases the decided secrets. The caller must always call end.
func (t process) inject(ctx context.Context, c tool.Call, cmd programCall) (given envsecret.Secrets, end func(), err error) {
	if len(cmd.injections) == 0 {
		return given, func() {}, nil
	}
	values, back, err := t.lender.Inject(ctx, c, cmd.injections, cmd.program.Path)
	if err == nil {
		given, err = envsecret.New(cmd.injections, values)
	}
	return given, func() { given.Wipe(); back() }, err
}
