package proxy

import (
	"context"
	"net"
	"sync/atomic"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/web"
)

// forward serves requests in absolute form, each of which names its target.
func (v *service) forward(ctx context.Context, c *caller) {
	front := v.front()
	front.Connect = func(ctx context.Context, t egress.Target) (net.Conn, *egress.Entry, error) {
		return pair(v.connect(ctx, egress.LegForward, t, c))
	}
	front.Refuse = func(t egress.Target, why string) { v.refuse(egress.LegForward, t, why) }
	front.Allow = func(t egress.Target) error {
		if v.budget.requests.take(1) {
			return nil
		}
		v.refuse(egress.LegForward, t, egress.ReasonBudgetRequests)
		return errRequests
	}
	web.Serve(ctx, c, front)
}

// web serves the requests of a connection that has a target. The connection already opened to it is
// used first. Refusals are recorded in its entry.
func (l *link) web(ctx context.Context, conn net.Conn) error {
	var spare atomic.Pointer[upstream]
	spare.Store(l.host)
	front := l.front()
	front.Target = l.target
	front.Connect = func(ctx context.Context, t egress.Target) (net.Conn, *egress.Entry, error) {
		if host := spare.Swap(nil); host != nil {
			return pair(host, nil)
		}
		return pair(l.connect(ctx, l.leg, t, l.caller))
	}
	front.Refuse = func(_ egress.Target, why string) { decide(l.host.entry, denied(why)) }
	front.Allow = func(egress.Target) error {
		if l.budget.requests.take(1) {
			return nil
		}
		decide(l.host.entry, broken(egress.ReasonBudgetRequests))
		return errRequests
	}
	web.Serve(ctx, conn, front)
	return nil
}

// front returns the part common to all HTTP legs.
func (v *service) front() web.Front {
	return web.Front{Inspect: v.allowed.Inspected, Secrets: v.secrets, Roots: v.outward.Roots}
}

// pair converts the result of connect to the types of package web.
func pair(host *upstream, err error) (net.Conn, *egress.Entry, error) {
	if err != nil {
		return nil, nil, err
	}
	return host, host.entry, nil
}

var errRequests = reason.Errorf(reason.EgressDenied, "The program has reached its limit of requests.").
	WithField("reason", egress.ReasonBudgetRequests)
