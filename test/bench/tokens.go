//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/event"
	"palyra/internal/identity/token"
)

// tokenCheck is goal 21: the time to authenticate a request with an API token, among as many other
// tokens as a busy gateway has.
func tokenCheck(ctx context.Context, b *bench) ([]*line, error) {
	took := &line{goal: "21", what: "check of an API token", unit: "us", limit: atMost(5)}
	const others = 1000
	kept, err := token.New(ctx, token.Config{Store: nowhere{}, Members: everybody{}})
	if err != nil {
		return nil, err
	}
	texts := make([]string, others)
	for i := range texts {
		_, texts[i], err = kept.Create(ctx, access.User("ann"), token.Request{
			Name: fmt.Sprintf("t%d", i), Scopes: []access.Permission{access.PermToolCall}, Addresses: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		})
		if err != nil {
			return nil, err
		}
	}
	from := netip.MustParseAddr("127.0.0.1")
	return []*line{took}, b.each(ctx, func() error {
		started := time.Now()
		for i := range b.size.checks {
			if _, err := kept.Authenticate(texts[i%others], from); err != nil {
				return fmt.Errorf("request %d was refused: %w", i, err)
			}
		}
		took.add(0, micros(time.Since(started))/float64(b.size.checks))
		return nil
	})
}

// everybody reports every principal as an active member.
type everybody struct{}

func (everybody) Active(p access.Principal) (access.Member, bool) {
	return access.Member{Principal: p}, true
}
func (everybody) Get(p access.Principal) (access.Member, bool) {
	return access.Member{Principal: p}, true
}

// nowhere stores no token: a check reads only memory.
type nowhere struct{}

func (nowhere) Tokens(context.Context) ([]token.Token, error)                { return nil, nil }
func (nowhere) AddToken(context.Context, token.Token, event.Draft) error     { return nil }
func (nowhere) ReplaceToken(context.Context, token.Token, event.Draft) error { return nil }
func (nowhere) UsedTokens(context.Context, map[string]time.Time) error       { return nil }
