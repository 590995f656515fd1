// Package gateway builds palyrad from its packages and runs it. It is the only
// package that imports all of them, and the only one that names executors.
package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/call"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/statedir"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/journal"
)

// closeTime limits the last answers and writes once no work is running.
const closeTime = 10 * time.Second

// Options configure Run.
type Options struct {
	Config *config.Config
	// Origins holds the source of each setting, for display.
	Origins config.Origins
	Log     *slog.Logger
	// Ready, if set, is called once, when the listeners are open.
	Ready func(Addresses)
	// Reload triggers a reload of the policy directory, as SIGHUP does. It may be nil.
	Reload <-chan struct{}

	// tools are added to the daemon's own tools. Only tests set it.
	tools []tool.Runnable
	// wall is the wall clock, nil means time.Now; tests set it.
	wall func() time.Time
	// wrap modifies the configuration of the pipeline. Only tests set it.
	wrap func(call.Config) call.Config
}

// Addresses are the daemon's listening addresses, as host:port.
type Addresses struct {
	API     string
	Metrics string
	Agents  string
	// Console is the origin of the web console, or "".
	Console string
	// Credentials is the directory of the local operator's bundle.
	Credentials string
}

// Run starts the daemon and returns when ctx ends and everything has stopped, or when a required
// part fails.
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

// run runs the parts of the gateway until it must stop. It then ends the desk first: calls that
// wait for a human return, and their approvals stay pending for the next start. Calls with a
// running tool may finish within stop_timeout and are attested; the API answers meanwhile and
// accepts no new calls. Runs end before the pipeline closes, and are recorded as interrupted. The
// API ends after the pipeline, so that callers get their answers. The journal's maintenance ends
// last.
func (g *gateway) run(ctx context.Context, o Options) error {
	base, stopBase := context.WithCancel(context.WithoutCancel(ctx))
	defer stopBase()
	// The gateway's maintenance completes started work.
	upkeep, upkeepCtx := errgroup.WithContext(access.Precede(base, access.PrecedenceEnding))
	upkeep.Go(func() error { return g.journal.Checkpoints.Run(upkeepCtx) })
	upkeep.Go(func() error { return g.auditor.Run(upkeepCtx) })
	upkeep.Go(func() error { return g.metrics.Follow(upkeepCtx) })
	upkeep.Go(func() error { return mend(upkeepCtx, g.log, g.stores.disk) })
	upkeep.Go(func() error { return g.stores.keepReserve(upkeepCtx) })
	upkeep.Go(func() error { return g.stores.tendResults(upkeepCtx) })
	upkeep.Go(func() error { return g.quotas.Run(upkeepCtx, g.stores.usage) })
	upkeep.Go(func() error { return keepTokens(upkeepCtx, g) })
	upkeep.Go(func() error { return g.installed.Run(upkeepCtx) })
	upkeep.Go(func() error { return keepLeases(upkeepCtx, g) })
	upkeep.Go(func() error { return resumeRekey(upkeepCtx, g) })
	upkeep.Go(func() error { return g.isolation.caches.Run(upkeepCtx) })
	if g.cfg.ProcessRunner.Enabled {
		upkeep.Go(func() error { return g.isolation.watch.Follow(upkeepCtx) })
	}

	front, frontCtx := errgroup.WithContext(ctx)
	// A part of the upkeep that fails stops the front as well.
	front.Go(func() error {
		select {
		case <-upkeepCtx.Done():
			return errors.New("a required part of the gateway has stopped")
		case <-frontCtx.Done():
			return nil
		}
	})
	front.Go(func() error { return g.desk.Run(access.Precede(frontCtx, access.PrecedenceEnding)) })
	pipelineCtx, closePipeline := context.WithCancel(base)
	defer closePipeline()
	front.Go(func() error {
		defer closePipeline()
		return g.runs.Run(frontCtx, g.cfg.StopTimeout)
	})
	late, drained := make(chan struct{}), make(chan struct{})
	// Upstream servers end when no call is under way any more.
	serversCtx, endServers := context.WithCancel(base)
	defer endServers()
	front.Go(func() error {
		defer endServers()
		defer close(drained)
		return g.pipeline.Run(pipelineCtx, late)
	})
	front.Go(func() error { return g.upstreams.Run(serversCtx) })
	front.Go(func() error { return g.drain(frontCtx, late, drained) })
	front.Go(func() error { return g.policies.Watcher.Watch(frontCtx, o.Reload) })
	front.Go(func() error { return keepIdentity(frontCtx, g) })
	front.Go(func() error { return g.changing.Run(frontCtx) })
	front.Go(func() error { return g.pairings.Run(frontCtx) })
	front.Go(func() error { return g.authzen.Tasks.Run(frontCtx) })
	front.Go(func() error { return g.mcp.Run(frontCtx) })
	front.Go(func() error { return runNotify(frontCtx, g) })
	front.Go(func() error { return g.console.Sessions.Run(frontCtx) })
	front.Go(func() error { return g.identity.Keys.Run(frontCtx) })
	front.Go(func() error { return g.serve(frontCtx, drained, o.Ready) })

	frontErr := front.Wait()
	stopBase()
	return errors.Join(frontErr, upkeep.Wait())
}

// mostNamed limits the calls that the log names individually.
const mostNamed = 20

// drain gives running calls their time to end once the gateway must stop, closes late when the time
// is over, and logs both.
func (g *gateway) drain(ctx context.Context, late chan<- struct{}, drained <-chan struct{}) error {
	<-ctx.Done()
	g.stopping.Store(true)
	close(g.holding)
	running := g.pipeline.Running()
	g.log.InfoContext(ctx, "stopping: new calls are refused; running calls may end within stop_timeout",
		slog.Int("calls", len(running)), slog.Int("runs", g.runs.Roster.Active()), slog.Duration("stop_timeout", g.cfg.StopTimeout))
	for _, c := range running[:min(len(running), mostNamed)] {
		g.log.InfoContext(ctx, "waiting for a call to end", runningAttrs(c)...)
	}
	over := time.NewTimer(g.cfg.StopTimeout)
	defer over.Stop()
	select {
	case <-drained:
		return nil
	case <-over.C:
	}
	running = g.pipeline.Running()
	close(late)
	if len(running) > 0 {
		g.log.WarnContext(ctx, "stop_timeout is over: calls that still run are ended", slog.Int("calls", len(running)))
	}
	for _, c := range running[:min(len(running), mostNamed)] {
		g.log.WarnContext(ctx, "a call was ended by the stop", runningAttrs(c)...)
	}
	return nil
}

func runningAttrs(c call.Running) []any {
	return []any{slog.String("proposal", c.ProposalID), slog.String("tool", c.Tool), slog.String("principal", c.Principal.String())}
}

// close ends the journal in order and releases the state directory.
func (g *gateway) close(cause error) error {
	ctx, cancel := context.WithTimeout(access.Precede(context.Background(), access.PrecedenceUrgent), closeTime)
	defer cancel()
	var errs []error
	if cause == nil {
		if err := g.journal.Record(ctx, event.Closed, journal.Daemon, "", struct{}{}); err != nil {
			errs = append(errs, fmt.Errorf("journaling the stop: %w", err))
		} else if _, err := g.journal.Checkpoints.Write(ctx); err != nil {
			errs = append(errs, fmt.Errorf("signing the last checkpoint: %w", err))
		}
	}
	if err := errors.Join(append(errs, g.parts.close(ctx))...); err != nil {
		return err
	}
	if cause == nil {
		g.log.InfoContext(ctx, "palyrad has stopped")
	}
	return nil
}
