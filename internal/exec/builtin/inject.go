package builtin

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/injecting"
	"palyra/internal/exec/sandbox"
)

// checkSecrets finds the secrets that the call names, and refuses what would let the
// value of one out of the run without anybody looking.
func (t process) checkSecrets(ctx context.Context, p tool.Proposal, c *command) error {
	if len(c.in.Secrets) == 0 {
		return nil
	}
	switch {
	case t.lender == nil:
		return reason.Errorf(reason.InvalidInput, "this gateway has no secrets for programs").WithField("pointer", "/secrets").WithRemedy("Leave secrets out.")
	case runtime.GOOS != "linux":
		return reason.Errorf(reason.SandboxUnavailable, "programs get no secrets on this platform").
			WithRemedy("Leave secrets out. Secrets with hosts are used by their placeholders.")
	case c.mode == sandbox.Direct:
		return reason.Errorf(reason.InvalidInput, "a program that writes to the workspace itself gets no secrets: nobody could look whether it leaves one there").
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
		list, refused := injecting.Place(c.injections, i, c.env, c.grant.Secrets)
		if refused != nil {
			return refused.WithField("pointer", "/secrets")
		}
		c.injections = list
	}
	slices.SortFunc(c.injections, func(a, b tool.Injection) int { return strings.Compare(a.Secret, b.Secret) })
	// What is written to a cache is seen by later programs, and nobody looks at it.
	c.caches = nil
	return nil
}

// injectionNotes are what the person who approves should know of them.
func (c command) injectionNotes() []string {
	var notes []string
	for _, i := range c.injections {
		notes = append(notes, fmt.Sprintf("The program gets the secret vault://%s as it is, which is asked separately. What it writes is scrubbed of it.", i.Secret))
	}
	return notes
}

// inject leases the secrets that were decided on. end has to be called in any case.
func (t process) inject(ctx context.Context, c tool.Call, cmd command) (given injecting.Given, end func(), err error) {
	if len(cmd.injections) == 0 {
		return given, func() {}, nil
	}
	values, back, err := t.lender.Inject(ctx, c, cmd.injections, cmd.program.Path)
	if err == nil {
		given, err = injecting.Give(cmd.injections, values)
	}
	return given, func() { given.Wipe(); back() }, err
}
