//go:build linux

package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	limits "palyra/internal/core/limit"
)

// rateLimitCheck is goal 20: the time to check the rate limits of a request's principal, its
// address and the shared bucket. The limiter has as many other entries as in a busy gateway.
func rateLimitCheck(ctx context.Context, b *bench) ([]*line, error) {
	took := &line{goal: "20", what: "rate-limit check of principal and address", unit: "us", limit: atMost(1)}
	made := &line{goal: "20", what: "allocations of a rate-limit check", limit: atMost(0)}
	const class, plenty = "bench", 1e6
	limiter, err := limits.NewLimiter(map[limits.Class]limits.Rates{class: {
		Each: limits.Limit{PerSecond: plenty, Burst: plenty}, Global: limits.Limit{PerSecond: 1e3 * plenty, Burst: 1e3 * plenty},
	}})
	if err != nil {
		return nil, err
	}
	principals, addresses := make([]string, 1000), make([]string, 1000)
	for i := range principals {
		principals[i], addresses[i] = fmt.Sprintf("user:u%d", i), fmt.Sprintf("192.0.2.%d", i)
		limiter.Allow(class, principals[i], addresses[i])
	}
	return []*line{took, made}, b.each(ctx, func() error {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		started := time.Now()
		for i := range b.size.checks {
			who := i % len(principals)
			if ok, _ := limiter.Allow(class, principals[who], addresses[who]); !ok {
				return fmt.Errorf("request %d was refused", i)
			}
		}
		took.add(0, micros(time.Since(started))/float64(b.size.checks))
		runtime.ReadMemStats(&after)
		// The runtime itself allocates occasionally; a check that allocates would do so each time.
		made.add(0, float64((after.Mallocs-before.Mallocs)/uint64(b.size.checks)))
		return nil
	})
}
