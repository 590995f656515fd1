package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/egress"
	"palyra/internal/egress/names"
	"palyra/internal/reason"
)

// Where a sandbox has the services of its own. A port that is also one of
// Session.Ports has one listener for both.
var (
	namesAt = netip.MustParseAddrPort("127.0.0.1:53")
	httpAt  = netip.MustParseAddrPort("127.0.0.1:3128")
	socksAt = netip.MustParseAddrPort("127.0.0.1:1080")
)

// service is one Serve: what its connections share.
type service struct {
	*Session
	ledger *egress.Ledger
	dialer *egress.Dialer
	names  *names.Service
	budget *budget
	// places has an element for every connection there is room for.
	places chan struct{}
	open   registry
	// work are the listeners and connections. The first of it that fails ends
	// all of it.
	work *errgroup.Group
}

// handler serves one connection. It need not close it.
type handler func(context.Context, *caller)

// Serve carries connections until ctx ends; then it breaks off those that are
// left, closes the listeners and returns nil. It returns an error when it
// cannot go on. Times and budgets count from here on, and it is called once at
// most.
func (s *Session) Serve(ctx context.Context, l Listeners) error {
	ledger := egress.NewLedger(time.Now())
	s.ledger.Store(ledger)
	work, ctx := errgroup.WithContext(ctx)
	v := &service{
		Session: s, ledger: ledger, work: work,
		budget: newBudget(s.grant.Budget), places: make(chan struct{}, s.grant.Budget.OrDefault().Concurrent),
		names: &names.Service{Allowed: s.grant.Rules.NameAllowed, Ledger: ledger},
		dialer: &egress.Dialer{
			Rules: s.grant.Rules, Ledger: ledger,
			Resolver: s.outward.Resolver, Interfaces: s.outward.Interfaces, Dial: s.outward.Dial,
		},
	}
	if l.Names != nil {
		work.Go(func() error { return v.names.ServePackets(ctx, l.Names) })
	}
	v.listen(ctx, l.NamesTCP, egress.LegName, v.name)
	v.listen(ctx, l.HTTP, egress.LegConnect, v.proxied)
	v.listen(ctx, l.SOCKS, egress.LegSOCKS, v.socks)
	for _, port := range l.Ports {
		v.listen(ctx, port, egress.LegTransparent, v.captured)
	}
	work.Go(func() error {
		<-ctx.Done()
		l.close()
		v.open.end()
		return nil
	})
	return work.Wait()
}

func (l Listeners) close() {
	for _, one := range append([]net.Listener{l.NamesTCP, l.HTTP, l.SOCKS}, l.Ports...) {
		if one != nil {
			one.Close()
		}
	}
}

func (v *service) listen(ctx context.Context, l net.Listener, leg string, serve handler) {
	if l != nil {
		v.work.Go(func() error { return v.accept(ctx, l, leg, serve) })
	}
}

// What a listener puts up with: a process that is out of descriptors may have
// some again soon.
const (
	mostFailures = 60
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// accept hands every connection of a listener to serve. It returns an error
// after many failures in a row.
func (v *service) accept(ctx context.Context, l net.Listener, leg string, serve handler) error {
	failures, crowded := 0, false
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				reset(conn)
			}
			return nil
		case err == nil:
			failures = 0
			if crowded = !v.place(ctx, crowded); !crowded {
				v.welcome(ctx, conn, serve)
				continue
			}
			v.refuse(leg, v.target(&caller{Conn: conn}, leg), egress.ReasonBudgetConcurrent)
			reset(conn)
		case errors.Is(err, net.ErrClosed) || failures == mostFailures:
			return fmt.Errorf("accepting connections of a sandbox: %w", err)
		default:
			pause(ctx, min(firstPause<<min(failures, 10), longestPause))
			failures++
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// closing is how long it may take until the place of a connection that the
// program has closed is free again.
const closing = 100 * time.Millisecond

// place takes a place for a connection. While there is none, who comes first
// waits a little, and who comes next does not.
func (v *service) place(ctx context.Context, crowded bool) bool {
	select {
	case v.places <- struct{}{}:
		return true
	default:
	}
	if crowded {
		return false
	}
	timer := time.NewTimer(closing)
	defer timer.Stop()
	select {
	case v.places <- struct{}{}:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

// welcome serves a connection beside the others. It has a place.
func (v *service) welcome(ctx context.Context, conn net.Conn, serve handler) {
	c := &caller{Conn: conn, until: time.Now().Add(v.budget.time)}
	_ = c.SetDeadline(c.until) // if that fails, reading does, too
	v.work.Go(func() error {
		defer func() { <-v.places }()
		defer conn.Close()
		defer v.caught()
		if v.open.add(conn) {
			defer v.open.remove(conn)
			serve(ctx, c)
		}
		return nil
	})
}

// caught makes a panic the end of the session, and not of the daemon.
func (v *service) caught() {
	if fault := recover(); fault != nil {
		err := fmt.Errorf("%w: %v\n%s", reason.Errorf(reason.Internal, "carrying a connection failed inside the gateway"), fault, debug.Stack())
		v.work.Go(func() error { return err })
	}
}

// refuse records a connection that got nowhere.
func (v *service) refuse(leg string, t egress.Target, why string) {
	entry := v.ledger.Begin(leg, t)
	decide(entry, denied(why))
	entry.End()
}
