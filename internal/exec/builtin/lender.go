package builtin

import (
	"context"
	"slices"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
)

// Lender has secrets that depend on who calls, such as those of a vault.
type Lender interface {
	// Offers are the secrets that are wanted, of those that calls of a proposal's caller
	// may use by their placeholders, without their values: at most limit, and more says
	// that there are others. wanted is asked of every secret that there is.
	Offers(ctx context.Context, p tool.Proposal, limit int, wanted func(egress.Secret) bool) (list []egress.Secret, more bool, err error)
	// Lend gives offers their sources, for one decided call. They have no value
	// any more once end was called.
	Lend(c tool.Call, offers []egress.Secret) (lent []egress.Secret, end func())
	// Injectable is where a program that the caller names a secret for would get it,
	// and Injectables are all that there are. Their files are names.
	Injectable(ctx context.Context, p tool.Proposal, name string) (tool.Injection, error)
	Injectables(ctx context.Context, p tool.Proposal) ([]tool.Injection, error)
	// Inject leases secrets to one decided call until end is called, also after an
	// error.
	Inject(ctx context.Context, c tool.Call, list []tool.Injection, program string) (values [][]byte, end func(), err error)
}

// offerSecrets adds to what the program may use the secrets that its caller may,
// of those that have a variable and a host within its reach. While the vault is locked
// it gets none: most programs need none.
func (t process) offerSecrets(ctx context.Context, p tool.Proposal, c *command) error {
	if t.lender == nil || t.policy.Egress != egress.Strict || t.offline(*c) {
		return nil
	}
	taken := make(map[string]bool)
	for _, s := range c.grant.Secrets {
		taken[s.Env] = true
	}
	offers, more, err := t.lender.Offers(ctx, p, programSecrets, func(s egress.Secret) bool {
		return s.Env != "" && !taken[s.Env] && c.grant.Reaches(s) && sandbox.CheckEnv([]string{s.Env + "="}) == nil
	})
	if err != nil && reason.Of(err) != reason.VaultLocked {
		return err
	}
	c.moreSecrets = more
	for _, s := range offers {
		// Two secrets for one variable: the operator's file comes before the vault,
		// and in the vault the narrower scope before the wider.
		if !taken[s.Env] {
			taken[s.Env] = true
			c.grant.Secrets = append(slices.Clip(c.grant.Secrets), s)
		}
	}
	c.grant = c.grant.Reachable()
	return nil
}

// programSecrets is how many of a vault's secrets one program may use.
const programSecrets = 64

// lend gives the program's secrets their sources until end is called.
func (t process) lend(c tool.Call, cmd *command) (end func()) {
	var own, others []egress.Secret
	for _, s := range cmd.grant.Secrets {
		if s.Lent() {
			others = append(others, s)
		} else {
			own = append(own, s)
		}
	}
	if len(others) == 0 {
		return func() {}
	}
	lent, end := t.lender.Lend(c, others)
	cmd.grant.Secrets = slices.Concat(own, lent)
	return end
}
