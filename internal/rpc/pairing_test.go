package rpc_test

import (
	"context"

	"palyra/internal/access"
	"palyra/internal/event"
	"palyra/internal/must"
	"palyra/internal/pairing"
)

// openPairings is a host of pairings, of which nobody ever answers one.
func (w *world) openPairings() *pairing.Host {
	w.t.Helper()
	w.pairings = must.Get(pairing.NewHost(pairing.Config{
		Issuer: w.identity, Approvals: nobodyAnswers{}, Journal: w.journal,
		Server: func() (pairing.Server, error) {
			return pairing.Server{CA: w.authority.Root().Raw, Name: "localhost", Key: []byte("a key")}, nil
		},
	}))(w.t)
	return w.pairings
}

type nobodyAnswers struct{}

func (nobodyAnswers) Ask(ctx context.Context, _ pairing.Code, _ func(string)) (pairing.Yes, error) {
	<-ctx.Done()
	return noYes{}, ctx.Err()
}

type noYes struct{}

func (noYes) By() []access.Principal                    { return nil }
func (noYes) Use(context.Context, ...event.Draft) error { return nil }
