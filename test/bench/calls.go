//go:build linux

package main

import (
	"context"
	"errors"
)

// governedCall is goal 1: a call that does nothing, through all stages to its
// attestation, against what it cannot do without: one round trip and two
// durable writes.
func governedCall(ctx context.Context, b *bench) (_ []*line, err error) {
	g, c, err := b.runningModel()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	trip, err := b.newRoundTrip(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, trip.close()) }()
	file, err := b.newGrowing()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()

	const floor = "stream round trip + 2 durable appends"
	streamed := &line{goal: "1", what: "governed builtin call over RunStream, p50", floorName: floor, unit: "us", limit: atMost(1.4)}
	single := &line{goal: "1", what: "governed builtin call by CallTool, p50", floorName: floor, unit: "us"}
	call := func() error { return c.call(ctx, "echo", `{"text":"hello"}`) }
	if _, err := p50(b.size.calls, call); err != nil { // connections, pools, caches
		return nil, err
	}
	return []*line{streamed, single}, b.each(ctx, func() error {
		round, err := p50(b.size.calls, trip.once)
		if err != nil {
			return err
		}
		durable, err := p50(b.size.calls, file.append)
		if err != nil {
			return err
		}
		talk, err := newConversation(ctx, c)
		if err != nil {
			return err
		}
		governed, err := talk.p50(b.size.calls)
		if err := errors.Join(err, talk.close()); err != nil {
			return err
		}
		streamed.add(round+2*durable, governed)
		if governed, err = p50(b.size.calls, call); err != nil {
			return err
		}
		single.add(round+2*durable, governed)
		return nil
	})
}
