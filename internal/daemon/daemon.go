// Package daemon builds palyrad from its packages and runs it. It is the only
// package that imports all of them, and the only one that names executors.
package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/access"
	"palyra/internal/config"
	"palyra/internal/dispatch"
	"palyra/internal/event"
	"palyra/internal/journal"
	"palyra/internal/statedir"
	"palyra/internal/toolcall"
)

// drainTime is how long calls may go on after the order to stop.
const drainTime = 10 * time.Second

// Options say what to run.
type Options struct {
	Config *config.Config
	Log    *slog.Logger
	// Ready is told once, when the listeners are open; it may be nil.
	Ready func(Addresses)
	// Reload orders a reload of the policy directory, as SIGHUP does; it may
	// be nil.
	Reload <-chan struct{}

	// tools are added to the daemon's own; tests use it.
	tools []dispatch.Tool
	// wall is the wall clock, nil means time.Now; tests set it.
	wall func() time.Time
	// wrap stands between the pipeline and its stages; tests use it.
	wrap func(toolcall.Config) toolcall.Config
}

// Addresses are where the daemon listens, as host:port.
type Addresses struct {
	API     string
	Metrics string
	// Credentials is the directory of the local operator's bundle.
	Credentials string
}

// Run starts the daemon and returns when ctx ends and everything has stopped,
// or when something that it cannot do without fails.
func Run(ctx context.Context, o Options) error {
	starting := access.Precede(ctx, access.PrecedenceUrgent)
	g, err := build(starting, o)
	if err != nil {
		return statedir.Unwritable(o.Config.StateDir, err)
	}
	runErr := statedir.Unwritable(o.Config.StateDir, g.open(starting))
	if runErr == nil {
		runErr = g.run(ctx, o)
	}
	return errors.Join(runErr, g.close(runErr))
}

// run runs the parts of the gateway until it has to stop. Then the desk ends first:
// calls that wait for a human return, and their approvals stay pending for the next
// start. Calls whose tool runs may finish within drainTime and are attested. Runs
// end before the pipeline closes, and are recorded as interrupted. The journal's
// upkeep ends last.
func (g *gateway) run(ctx context.Context, o Options) error {
	base, stopBase := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBase()
	// The gateway's upkeep ends what was begun.
	upkeep, upkeepCtx := errgroup.WithContext(access.Precede(base, access.PrecedenceEnding))
	upkeep.Go(func() error { return g.journal.Run(upkeepCtx) })
	upkeep.Go(func() error { return g.auditor.Run(upkeepCtx) })
	upkeep.Go(func() error { return g.metrics.Follow(upkeepCtx) })
	upkeep.Go(func() error { return mend(upkeepCtx, g.log, g.stores.disk) })
	upkeep.Go(func() error { return g.stores.keepReserve(upkeepCtx) })
	upkeep.Go(func() error { return g.quotas.Run(upkeepCtx, g.stores.usage) })
	upkeep.Go(func() error { return g.isolation.caches.Run(upkeepCtx) })

	front, frontCtx := errgroup.WithContext(ctx)
	// A part of the upkeep that fails stops the front as well.
	front.Go(func() error {
		select {
		case <-upkeepCtx.Done():
			return errors.New("a part that the gateway cannot do without has stopped")
		case <-frontCtx.Done():
			return nil
		}
	})
	front.Go(func() error { return g.desk.Run(access.Precede(frontCtx, access.PrecedenceEnding)) })
	pipelineCtx, closePipeline := context.WithCancel(base)
	defer closePipeline()
	front.Go(func() error {
		defer closePipeline()
		return g.runs.Run(frontCtx, drainTime)
	})
	front.Go(func() error { return g.pipeline.Run(pipelineCtx, drainTime) })
	front.Go(func() error { return g.policies.Watch(frontCtx, o.Reload) })
	front.Go(func() error { return keepIdentity(frontCtx, g) })
	front.Go(func() error { return g.serve(frontCtx, o.Ready) })

	frontErr := front.Wait()
	stopBase()
	return errors.Join(frontErr, upkeep.Wait())
}

// close ends the journal in order and releases the state directory.
func (g *gateway) close(cause error) error {
	ctx, cancel := context.WithTimeout(access.Precede(context.Background(), access.PrecedenceUrgent), drainTime)
	defer cancel()
	var errs []error
	if cause == nil {
		if err := g.journal.Record(ctx, event.Closed, journal.Daemon, "", struct{}{}); err != nil {
			errs = append(errs, fmt.Errorf("journaling the stop: %w", err))
		} else if _, err := g.journal.Checkpoint(ctx); err != nil {
			errs = append(errs, fmt.Errorf("signing the last checkpoint: %w", err))
		}
	}
	return errors.Join(append(errs, g.parts.close(ctx))...)
}
