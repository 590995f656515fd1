package lend

import (
	"context"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/vault"
)

// Injectable returns the variable or file in which the program of a proposal would receive a
// secret.
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

// Injectables returns all secrets that programs of the proposal's caller can receive as plain
// values.
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

// Inject leases the secrets of a decided call and returns their values, in order. end returns the
// leases and clears the values; it is never nil.
func (d *Desk) Inject(ctx context.Context, c tool.Call, list []tool.Injection, program string) (values [][]byte, end func(), err error) {
	return d.inject(ctx, &loan{desk: d, call: c}, list, program)
}

// InjectUntil is Inject for a program that outlives the call that started it. over is called
// after a lease has ended, possibly several times; it must not block. The program must not keep
// the value after that.
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
			return nil, end, reason.Errorf(reason.InvalidInput, "the value of %s has fewer than %d bytes, so it cannot be recognized in the output of the program", ref, leastInjected).
				WithRemedy("Store a longer value: `palyra vault put %s`.", ref)
		}
	}
	return got, end, nil
}

// leastInjected is the minimum length of a value that can be searched for in texts.
const leastInjected = 8

// purpose is the purpose of the lease in the journal.
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
