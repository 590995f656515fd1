package lend

import (
	"context"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/vault"
)

// Injectable is where the program of a proposal would get a secret as it is.
func (d *Desk) Injectable(ctx context.Context, p tool.Proposal, name string) (tool.Injection, error) {
	ref, err := vault.ParseRef(name)
	if err != nil {
		return tool.Injection{}, err
	}
	if d.vault == nil {
		return tool.Injection{}, vault.NoSuchSecret(ref)
	}
	m, err := d.vault.Injectable(ctx, borrower(p), ref)
	if err != nil {
		return tool.Injection{}, err
	}
	return injection(m), nil
}

// Injectables are all secrets that programs of the proposal's caller could get.
func (d *Desk) Injectables(ctx context.Context, p tool.Proposal) ([]tool.Injection, error) {
	if d.vault == nil {
		return nil, nil
	}
	list, err := d.vault.Injectables(ctx, borrower(p))
	var all []tool.Injection
	for _, m := range list {
		all = append(all, injection(m))
	}
	return all, err
}

func injection(m vault.Secret) tool.Injection {
	return tool.Injection{Secret: m.Ref.Name(), Version: m.Version, Env: m.Env, File: m.File, Note: m.Note}
}

// Inject leases the secrets of a decided call and returns their values, in order. end
// gives them back and clears them; it is never nil.
func (d *Desk) Inject(ctx context.Context, c tool.Call, list []tool.Injection, program string) (values [][]byte, end func(), err error) {
	return d.inject(ctx, &loan{desk: d, call: c}, list, program)
}

// InjectUntil is Inject for a program that goes on when the call that started it has
// ended. over is called, maybe several times, when a lease has ended: the program may not
// have the value any longer. It does not wait for anything.
func (d *Desk) InjectUntil(ctx context.Context, c tool.Call, list []tool.Injection, program string, until time.Time, over func()) (values [][]byte, end func(), err error) {
	return d.inject(ctx, &loan{desk: d, call: c, until: until, ended: over}, list, program)
}

func (d *Desk) inject(ctx context.Context, l *loan, list []tool.Injection, program string) (values [][]byte, end func(), err error) {
	var got [][]byte
	end = func() {
		for _, value := range got {
			clear(value)
		}
		l.end()
	}
	for _, i := range list {
		ref, err := vault.ParseRef(i.Secret)
		if err != nil {
			return nil, end, err
		}
		h, err := l.lease(ctx, ref, i.Version)
		if err != nil {
			return nil, end, err
		}
		value, err := h.Value(ctx, purpose(i, program))
		if err != nil {
			return nil, end, err
		}
		got = append(got, value)
		if len(value) < leastInjected {
			return nil, end, reason.Errorf(reason.InvalidInput, "the value of %s has fewer than %d bytes, so that it cannot be told from other text in what the program writes", ref, leastInjected).
				WithRemedy("Put a longer value: `palyra vault put %s`.", ref)
		}
	}
	return got, end, nil
}

// leastInjected is the shortest value that is looked for in texts.
const leastInjected = 8

// purpose is what the journal says that the value is for.
func purpose(i tool.Injection, program string) string {
	switch {
	case i.File == "" && i.Env == "":
		return "the guest of " + program
	case i.File == "":
		return "variable " + i.Env + " of " + program
	case i.Env == "":
		return "file " + i.File + " of " + program
	}
	return "file " + i.File + ", named in variable " + i.Env + ", of " + program
}
