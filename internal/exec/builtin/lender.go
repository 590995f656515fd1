package builtin

import (
	"context"
	"slices"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
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

// offerSecrets adds the secrets of the vault that the caller may use and that have a variable and
// a host within the program's reach. A locked vault adds none, because most programs need none.
func (t process) offerSecrets(ctx context.Context, p tool.Proposal, c *programCall) error {
	if t.lender == nil || t.policy.Egress != egress.Strict || t.offline(*c) {
		return nil
	}
	taken := make(map[string]bool)
	for _, s := range c.grant.Secrets {
		taken[s.Env] = true
	}
	offers, more, err := t.lender.Offers(ctx, p, programSecrets, func(s egress.Secret) bool {
		return s.Env != "" && !taken[s.Env] && c.grant.Reaches(s) && command.CheckEnv([]string{s.Env + "="}) == nil
	})
	if err != nil && reason.Of(err) != reason.VaultLocked {
		return err
	}
	c.moreSecrets = more
	for _, s := range offers {
		// For secrets with the same variable, the operator's file takes precedence over the
		// vault, and a narrower scope of the vault over a wider one.
		if !taken[s.Env] {
			taken[s.Env] = true
			c.grant.Secrets = append(slices.Clip(c.grant.Secrets), s)
		}
	}
	c.grant = c.grant.Reachable()
	return nil
}

// programSecrets is the maximum number of vault secrets for one program.
const programSecrets = 64

// lend provides the values of the program's secrets until end is called.
func (t process) lend(c tool.Call, cmd *programCall) (end func()) {
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
