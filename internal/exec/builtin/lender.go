package builtin

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/program/envsecret"
	"palyra/internal/exec/sandbox"
)

// Lender provides secrets that depend on the caller, such as secrets of a vault.
type Lender interface {
	// Offers returns secrets, without their values, that the proposal's caller may use by
	// placeholder. It returns at most limit of them; more reports that further such secrets exist.
	// wanted is called for every existing secret and selects the relevant ones.
	Offers(ctx context.Context, p tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error)
	// Lend provides the values of offers for one decided call. After end, the values are no
	// longer available.
	Lend(c tool.Call, offers []egress.Secret) (lent []egress.Secret, end func())
	// Injectable returns the variable or file in which a program receives the secret that the
	// caller names. Injectables returns all such secrets. Files are given by name, not by path.
	Injectable(ctx context.Context, p tool.Proposal, name string) (tool.Injection, error)
	Injectables(ctx context.Context, p tool.Proposal) ([]tool.Injection, error)
	// Inject leases secrets to one decided call until end is called, also after an error.
	Inject(ctx context.Context, c tool.Call, list []tool.Injection, program string) (values [][]byte, end func(), err error)
}

// secretLoans leases the secrets of the vault to programs. A nil lender has no secrets.
type secretLoans struct{ lender Lender }

// offer adds the secrets of the vault that the caller may use and that have a variable and a host
// within the program's reach. A locked vault adds none, because most programs need none.
func (l secretLoans) offer(ctx context.Context, p tool.Proposal, c *programCall) error {
	if l.lender == nil || c.net.mode != egress.Strict || c.net.offline() {
		return nil
	}
	taken := make(map[string]bool)
	for _, s := range c.net.grant.Secrets {
		taken[s.Env] = true
	}
	offers, more, err := l.lender.Offers(ctx, p, programSecrets, func(s egress.Secret) bool {
		return s.Env != "" && !taken[s.Env] && c.net.grant.Reaches(s) && command.CheckEnv([]string{s.Env + "="}) == nil
	})
	if err != nil && reason.Of(err) != reason.VaultLocked {
		return err
	}
	c.net.moreSecrets = more
	for _, s := range offers {
		// For secrets with the same variable, the operator's file takes precedence over the
		// vault, and a narrower scope of the vault over a wider one.
		if !taken[s.Env] {
			taken[s.Env] = true
			c.net.grant.Secrets = append(slices.Clip(c.net.grant.Secrets), s)
		}
	}
	c.net.grant = c.net.grant.Reachable()
	return nil
}

// programSecrets is the maximum number of vault secrets for one program.
const programSecrets = 64

// lend provides the values of the program's secrets until end is called.
func (l secretLoans) lend(c tool.Call, cmd *programCall) (end func()) {
	var own, others []egress.Secret
	for _, s := range cmd.net.grant.Secrets {
		if s.Lent() {
			others = append(others, s)
		} else {
			own = append(own, s)
		}
	}
	if len(others) == 0 {
		return func() {}
	}
	lent, end := l.lender.Lend(c, others)
	cmd.net.grant.Secrets = slices.Concat(own, lent)
	return end
}

// place resolves the secrets that the call names, and refuses a call in which a value could leave
// the run without a check.
func (l secretLoans) place(ctx context.Context, p tool.Proposal, c *programCall) error {
	if len(c.in.Secrets) == 0 {
		return nil
	}
	switch {
	case l.lender == nil:
		return reason.Errorf(reason.InvalidInput, "this gateway has no secrets for programs").WithField("pointer", "/secrets").WithRemedy("Omit secrets.")
	case runtime.GOOS != "linux":
		return reason.Errorf(reason.SandboxUnavailable, "programs cannot receive secrets on this platform").
			WithRemedy("Omit secrets. Secrets with hosts are used by their placeholders.")
	case c.mode == sandbox.Direct:
		return reason.Errorf(reason.InvalidInput, "a program that writes to the workspace directly cannot receive secrets: its writes could not be checked for them").
			WithField("pointer", "/secrets").WithRemedy("Ask for read_only or dry_run, or use a workspace in which programs work on a copy.")
	}
	for _, name := range c.in.Secrets {
		i, err := l.lender.Injectable(ctx, p, name)
		if err != nil {
			return err
		}
		if i.File != "" && c.machine.tier() != string(sandbox.TierC) {
			return sandbox.NoSecretFiles()
		}
		i.Within = c.limits.Wall.String()
		list, refused := envsecret.Place(c.injections, i, c.env, c.net.grant.Secrets)
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
func (l secretLoans) inject(ctx context.Context, c tool.Call, cmd programCall) (given envsecret.Secrets, end func(), err error) {
	if len(cmd.injections) == 0 {
		return given, func() {}, nil
	}
	values, back, err := l.lender.Inject(ctx, c, cmd.injections, cmd.program.Path)
	if err == nil {
		given, err = envsecret.New(cmd.injections, values)
	}
	return given, func() { given.Wipe(); back() }, err
}
