// Package lend provides the vault's secrets to tools by placeholder: the usable secrets are
// offered while a call is planned, and lent to a decided call until it ends.
package lend

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/vault"
)

// Vault stores the secrets (vault.Service).
type Vault interface {
	Placeholders(ctx context.Context, b vault.Borrower, limit int, wanted func(vault.Placeholder) bool) (list []vault.Placeholder, more bool, err error)
	Injectable(ctx context.Context, b vault.Borrower, ref vault.Ref) (vault.Secret, error)
	Injectables(ctx context.Context, b vault.Borrower) ([]vault.Secret, error)
	Lease(ctx context.Context, b vault.Borrower, q vault.LeaseRequest) (*vault.Handle, error)
}

// Desk lends the secrets of a vault. It has no vault until Serve is called.
type Desk struct {
	vault Vault
	// longest is the maximum duration of a call.
	longest time.Duration
	log     *slog.Logger
	rules   rules
}

// New returns a desk. A lease ends with its call, and after longest at the latest.
func New(longest time.Duration, log *slog.Logger) *Desk { return &Desk{longest: longest, log: log} }

// Serve sets the vault. It must be called before the first call. New cannot take the vault,
// because tools are created before the policies that the vault depends on, and policies depend on
// the tools.
func (d *Desk) Serve(v Vault) { d.vault = v }

// borrower returns the caller and the skill of a proposal.
func borrower(p tool.Proposal) vault.Borrower {
	return vault.Borrower{Caller: p.Caller, Skill: p.Tool.Skill}
}

// Offers returns at most limit secrets that have hosts, that policy permits the proposal's
// caller to lease, and that wanted selects. more reports that further such secrets exist.
// Secrets of an agent precede secrets of its user, and these precede secrets of the gateway.
func (d *Desk) Offers(ctx context.Context, p tool.Proposal, limit int, wanted func(egress.Secret) bool) (offers []egress.Secret, more bool, err error) {
	if d.vault == nil {
		return nil, false, nil
	}
	var wrong error
	placed, more, err := d.vault.Placeholders(ctx, borrower(p), limit, func(one vault.Placeholder) bool {
		s, err := d.offer(one)
		if err != nil {
			wrong = err
		}
		return err == nil && wanted(s)
	})
	if err = errors.Join(err, wrong); err != nil {
		return nil, false, fmt.Errorf("reading the usable secrets of the vault: %w", err)
	}
	for _, one := range placed {
		s, err := d.offer(one)
		if err != nil {
			return nil, false, err
		}
		offers = append(offers, s)
	}
	return offers, more, nil
}

func (d *Desk) offer(one vault.Placeholder) (egress.Secret, error) {
	hosts, err := d.rules.parse(one.Hosts)
	if err != nil {
		return egress.Secret{}, fmt.Errorf("reading the hosts of %s: %w", one.Ref, err)
	}
	return egress.Secret{Name: one.Ref.Name(), Version: one.Version, Env: one.Env, Header: one.Header, Hosts: hosts, Note: one.Note}, nil
}

// rules caches the parsed hosts of secrets, by text.
type rules struct {
	mu    sync.Mutex
	known map[string][]egress.Rule
}

// mostRules is the maximum number of cached rules.
const mostRules = 20_000

func (r *rules) parse(hosts []string) ([]egress.Rule, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(hosts, " ")
	if known, ok := r.known[text]; ok {
		return known, nil
	}
	list, err := egress.ParseRules(hosts)
	if err != nil {
		return nil, err
	}
	if r.known == nil || len(r.known) >= mostRules {
		r.known = map[string][]egress.Rule{}
	}
	r.known[text] = list
	return list, nil
}

// Own leases a secret to the gateway itself for a purpose of a run, until end is called.
func (d *Desk) Own(ctx context.Context, name, run, purpose string) (value []byte, end func(), err error) {
	ref, err := vault.ParseRef(name)
	if err != nil {
		return nil, nil, err
	}
	h, err := d.vault.Lease(ctx, vault.Borrower{Caller: vault.Gateway()}, vault.LeaseRequest{Ref: ref, Run: run, Until: time.Now().Add(vault.MaxLease)})
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		if err := h.End(context.WithoutCancel(ctx)); err != nil {
			d.log.ErrorContext(ctx, "recording the end of a lease failed", slog.String("run", run), slog.Any("error", err))
		}
	}
	if value, err = h.Value(ctx, purpose); err != nil {
		end()
		return nil, nil, err
	}
	return value, end, nil
}

// Lend returns the offers with a source that leases each secret at its first use. end ends the
// leases.
func (d *Desk) Lend(c tool.Call, offers []egress.Secret) (lent []egress.Secret, end func()) {
	l := &loan{desk: d, call: c, offers: map[string]egress.Secret{}, used: map[string]*vault.Handle{}}
	for _, s := range offers {
		l.offers[s.Name] = s
		s.Source = l
		lent = append(lent, s)
	}
	return lent, l.end
}

// loan holds the leases of one call.
type loan struct {
	desk *Desk
	call tool.Call
	// until is the latest end of its leases, zero for the maximum duration of a call. ended is
	// called at the end of each lease.
	until  time.Time
	ended  func()
	offers map[string]egress.Secret

	mu     sync.Mutex
	over   bool
	leased []*vault.Handle
	// used are the leases of previously used secrets.
	used map[string]*vault.Handle
}

// Secret leases a secret for the call, once, and returns its value while the lease is valid.
func (l *loan) Secret(ctx context.Context, name string) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.offers[name]
	if !ok || l.over {
		return nil, reason.Errorf(reason.NotFound, "the secret %s is not lent to this call", name)
	}
	ref, err := vault.ParseRef(name)
	if err != nil {
		return nil, err
	}
	h := l.used[name]
	if h == nil {
		if h, err = l.lease(ctx, ref, s.Version); err != nil {
			return nil, err
		}
		l.used[name] = h
	}
	return h.Value(ctx, s.Header+" for "+strings.Join(s.Reach(), ", "))
}

// lease leases the decided version of a secret.
func (l *loan) lease(ctx context.Context, ref vault.Ref, version int) (*vault.Handle, error) {
	p, until := l.call.Proposal, l.until
	if until.IsZero() {
		until = time.Now().Add(l.desk.longest)
	}
	h, err := l.desk.vault.Lease(ctx, borrower(p), vault.LeaseRequest{
		Ref: ref, Call: p.ID, Run: p.Run, Until: until, Over: l.ended,
	})
	if err != nil {
		return nil, err
	}
	l.leased = append(l.leased, h)
	if got := h.Lease().Version; got != version {
		return nil, reason.Errorf(reason.BindingMismatch, "the secret %s has version %d, but the decision was for version %d", ref.Name(), got, version)
	}
	return h, nil
}

// end ends the leases. An error in recording the end is only logged, because the value is cleared
// in any case.
func (l *loan) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	var errs []error
	for _, h := range l.leased {
		errs = append(errs, h.End(context.Background()))
	}
	l.leased = nil
	if err := errors.Join(errs...); err != nil {
		l.desk.log.Error("recording the end of a lease failed", slog.String("proposal", l.call.Proposal.ID), slog.Any("error", err))
	}
}
