package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/proxy/dns"
)

// Addresses of the sandbox's own services. If a port is also in Proxy.Ports, one listener serves
// both.
var (
	namesAt = netip.MustParseAddrPort("127.0.0.1:53")
	httpAt  = netip.MustParseAddrPort("127.0.0.1:3128")
	socksAt = netip.MustParseAddrPort("127.0.0.1:1080")
)

// service is the state that the connections of one Serve share.
type service struct {
	*Proxy
	log    *egress.ConnectionLog
	dialer *egress.Dialer
	names  *dns.Service
	budget *budget
	// callers are the places for connections of programs, hosts for connections opened for them:
	// one HTTP caller may need several.
	callers, hosts semaphore
	open           registry
	lookups        lookups
	// work is the group of the listeners and connections. The first failure ends all of them.
	work *errgroup.Group
	// accepting counts the listeners, speaking the callers that may still send.
	accepting, speaking sync.WaitGroup
	closing             atomic.Bool
}

// handler serves one connection, and need not close it.
type handler func(context.Context, *caller)

// ErrEnded is the cause of the end of Serve's context when the program has exited by itself.
// The program's remaining data is then passed on, for at most a second.
var ErrEnded = errors.New("the program has ended")

// Serve carries connections until ctx ends; it then closes the listeners, aborts the remaining
// connections and returns nil. It returns an error when it cannot continue. Times and budgets start
// with this call. Serve must be called at most once.
func (p *Proxy) Serve(ctx context.Context, l Listeners) error {
	log := egress.NewConnectionLog(time.Now())
	p.log.Store(log)
	within, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	work, within := errgroup.WithContext(within)
	atOnce := p.allowed.Budget.OrDefault().Concurrent
	v := &service{
		Proxy: p, log: log, work: work,
		budget: newBudget(p.allowed.Budget), callers: make(semaphore, atOnce), hosts: make(semaphore, 2*atOnce),
		names: dns.New(p.allowed.Rules.CheckName, log),
		dialer: &egress.Dialer{
			Rules: p.allowed.Rules, Log: log,
			Resolver: p.outward.Resolver, Interfaces: p.outward.Interfaces, Dial: p.outward.Dial,
		},
	}
	if l.Names != nil {
		work.Go(func() error {
			defer v.recovered()
			return v.names.ServePackets(within, l.Names)
		})
	}
	v.listen(within, l.NamesTCP, egress.LegName, v.name)
	v.listen(within, l.HTTP, egress.LegConnect, v.proxied)
	v.listen(within, l.SOCKS, egress.LegSOCKS, v.socks)
	for _, port := range l.Ports {
		v.listen(within, port, egress.LegTransparent, v.captured)
	}
	work.Go(func() error {
		select {
		case <-within.Done():
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), ErrEnded) {
				v.drain(within, l)
			}
		}
		stop()
		v.close(l)
		v.open.end()
		return nil
	})
	return work.Wait()
}

// lastWords limits the time for the program's remaining data after its end.
const lastWords = time.Second

// drain accepts the program's remaining connections, and waits until all its data has been passed
// on.
func (v *service) drain(ctx context.Context, l Listeners) {
	ctx, cancel := context.WithTimeout(ctx, v.waits.last)
	defer cancel()
	for _, one := range l.streams() {
		for waiting(one) && ctx.Err() == nil {
			pause(ctx, 100*time.Microsecond) // yields to the accepting goroutines
		}
	}
	v.close(l)
	said := make(chan struct{})
	v.work.Go(func() error {
		v.accepting.Wait()
		v.speaking.Wait()
		close(said)
		return nil
	})
	select {
	case <-said:
	case <-ctx.Done():
	}
}

// streams returns the listeners that are not nil.
func (l Listeners) streams() []net.Listener {
	all := append([]net.Listener{l.NamesTCP, l.HTTP, l.SOCKS}, l.Ports...)
	return slices.DeleteFunc(all, func(one net.Listener) bool { return one == nil })
}

// Close closes the listeners. Serve closes the listeners passed to it.
func (l Listeners) Close() {
	for _, one := range l.streams() {
		one.Close()
	}
	if l.Names != nil {
		l.Names.Close()
	}
}

// close stops accepting connections. Name queries of the remaining connections are still answered.
func (v *service) close(l Listeners) {
	v.closing.Store(true)
	for _, one := range l.streams() {
		one.Close()
	}
}

func (v *service) listen(ctx context.Context, l net.Listener, leg string, serve handler) {
	if l == nil {
		return
	}
	v.accepting.Add(1)
	v.work.Go(func() error {
		defer v.accepting.Done()
		return v.accept(ctx, l, leg, serve)
	})
}

// Retry limits of a listener: a process without free descriptors may recover.
const (
	mostFailures = 60
	firstPause   = 5 * time.Millisecond
	longestPause = time.Second
)

// acceptDelay delays each refused connection of a program that has exhausted its connections or its
// concurrency: refusing costs daemon time that no other limit bounds.
const acceptDelay = 10 * time.Millisecond

// accept passes every connection of a listener to serve. It returns an error after many failures in
// a row.
func (v *service) accept(ctx context.Context, l net.Listener, leg string, serve handler) error {
	failures, crowded := 0, false
	for {
		conn, err := l.Accept()
		switch {
		case err == nil:
			failures = 0
			if crowded = !v.admit(ctx, crowded); !crowded {
				v.serveConn(ctx, conn, serve)
			} else {
				v.refuse(leg, v.target(&caller{Conn: conn}, leg), egress.ReasonBudgetConcurrent)
				reset(conn)
			}
			if crowded || v.budget.connections.spent() {
				pause(ctx, acceptDelay)
			}
		case v.closing.Load():
			return nil
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

// closingTime is the maximum delay until a connection that the program has closed releases its
// place.
const closingTime = 100 * time.Millisecond

// admit takes a place for a caller. If none is free, the first caller waits a short time, and the
// following ones do not.
func (v *service) admit(ctx context.Context, crowded bool) bool {
	if crowded {
		return v.callers.acquire(ctx, 0)
	}
	return v.callers.acquire(ctx, closingTime)
}

// serveConn serves a connection concurrently with others. The caller has acquired its place.
func (v *service) serveConn(ctx context.Context, conn net.Conn, serve handler) {
	v.speaking.Add(1)
	c := &caller{Conn: conn, until: time.Now().Add(v.budget.time), said: sync.OnceFunc(v.speaking.Done)}
	_ = c.SetDeadline(c.until) // if this fails, reading fails as well
	v.work.Go(func() error {
		defer v.callers.release()
		defer c.said()
		defer conn.Close()
		defer v.recovered()
		if v.open.add(conn) {
			defer v.open.remove(conn)
			serve(ctx, c)
		}
		return nil
	})
}

// recovered limits a panic to the proxy, so that the daemon continues.
func (v *service) recovered() {
	if fault := recover(); fault != nil {
		if v.outward.Log != nil {
			v.outward.Log.Error("carrying a connection panicked", slog.Any("fault", fault), slog.String("stack", string(debug.Stack())))
		}
		v.work.Go(func() error {
			return reason.Errorf(reason.Internal, "carrying a connection failed inside the gateway")
		})
	}
}

// refuse records a failed connection. It still counts against the program's connections.
func (v *service) refuse(leg string, t egress.Target, why string) {
	v.budget.connections.take(1)
	entry := v.log.Begin(leg, t)
	decide(entry, denied(why))
	entry.End()
}
