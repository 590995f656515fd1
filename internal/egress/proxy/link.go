package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/egress/proxy/hello"
	"palyra/internal/egress/secret"
	"palyra/internal/egress/web"
)

// Ports with a known protocol.
const (
	portHTTP = 80
	portTLS  = 443
)

// link is a connection of a program with its target.
type link struct {
	*service
	caller *caller
	host   *upstream
	leg    string
	target egress.Target
}

// reach connects a program with its target and relays the data. On the proxy legs, reply sends the
// program the result; on the transparent leg it is nil, and a failed connection is declined.
func (v *service) reach(ctx context.Context, c *caller, leg string, t egress.Target, reply func(error) error) {
	host, err := v.connect(ctx, leg, t, c)
	if err == nil {
		defer func() { _ = host.Close() }() // no recipient for the error is left
	}
	switch {
	case reply == nil && err != nil:
		v.decline(c, t, err)
		return
	case reply != nil:
		if failed := reply(err); failed != nil || err != nil {
			return
		}
	}
	l := &link{v, c, host, leg, t}
	if err := l.carry(ctx); err != nil {
		l.breakOff(err)
	}
}

// connect connects to a target on behalf of a program. The error is a *reason.Error with an
// explanation for the program; its field "reason" is the reason in the log.
func (v *service) connect(ctx context.Context, leg string, t egress.Target, c *caller) (*upstream, error) {
	entry := v.log.Begin(leg, t)
	conn, err := v.dial(ctx, t, entry)
	if err != nil {
		entry.End()
		told := reason.Errorf(reason.Of(err), "%s", entry.Explain(v.allowed.Hosts())).WithField("reason", entry.Reason())
		return nil, errors.Join(told, err)
	}
	host := &upstream{
		Conn: conn, entry: entry, budget: v.budget, open: &v.open, until: c.until, left: sync.OnceFunc(v.hosts.release),
	}
	if !v.open.add(conn) {
		_ = host.Close() // it is already closed
		return nil, reason.Errorf(reason.Cancelled, "the program has ended")
	}
	_ = host.SetDeadline(c.until) // if this fails, reading fails as well
	return host, nil
}

// dial connects to a target within the budget, and decides its entry.
func (v *service) dial(ctx context.Context, t egress.Target, entry *egress.Entry) (net.Conn, error) {
	spent := reason.Errorf(reason.EgressDenied, "the program may have no more connections")
	if !v.budget.connections.take(1) {
		decide(entry, denied(egress.ReasonBudgetConnections))
		return nil, spent
	}
	if !v.hosts.acquire(ctx, closingTime) {
		decide(entry, denied(egress.ReasonBudgetConcurrent))
		return nil, spent
	}
	if !v.payForName(t, entry) {
		v.hosts.release()
		return nil, spent
	}
	conn, err := v.dialer.Connect(ctx, t, entry)
	if err != nil {
		v.hosts.release()
	}
	return conn, err
}

// breakOff ends both connections at once. It records the reason if the gateway decided to end them.
func (l *link) breakOff(err error) {
	if word := secret.Word(err); word != "" {
		err = denied(word)
	}
	decide(l.host.entry, err)
	reset(l.host.Conn)
	reset(l.caller.Conn)
}

// carry checks the first data of the program, and passes it on with all following data.
func (l *link) carry(ctx context.Context) error {
	_, inspected := l.allowed.Inspected(l.target)
	switch {
	case l.target.Port == portHTTP:
		return l.web(ctx, l.caller)
	case l.target.Port == portTLS, inspected:
		return l.hear(ctx, inspected)
	}
	return l.either(ctx)
}

// hear relays a connection on which the program must send first.
func (l *link) hear(ctx context.Context, inspected bool) error {
	if err := l.begun(l.caller); err != nil {
		return unheard(err)
	}
	err := readHello(l.caller, l.target)
	switch {
	case errors.Is(err, hello.ErrNotTLS) && l.target.Port != portTLS:
		return l.web(ctx, l.caller)
	case errors.Is(err, hello.ErrNotTLS):
		return denied(l.notTLS())
	case err != nil:
		return err
	case inspected:
		return l.web(ctx, tls.Server(l.caller, l.authority.Config(l.target.Host)))
	}
	up := l.up()
	down, answers := l.down(up.clock)
	up.watch(answers)
	ended := l.start(down)
	return errors.Join(l.say(up), <-ended)
}

// unheard returns nil for a program that disconnected without sending data, otherwise tooSlow(err).
func unheard(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return tooSlow(err)
}

// notTLS returns the log's reason for a program that does not use TLS where it is required.
func (l *link) notTLS() string {
	early := l.caller.early
	if what, _ := new(firstLine).judge(early, early); l.leg == egress.LegConnect && (what == request || what == undecided) {
		return egress.ReasonSecondRequest
	}
	return egress.ReasonBadTLS
}

// either relays a connection on which the host may send first. The host's data is passed on at
// once, and the program's data as soon as its protocol is recognised.
func (l *link) either(ctx context.Context) error {
	up := l.up()
	down, answers := l.down(up.clock)
	ended := l.start(down)
	what, err := l.listen(up)
	switch {
	case err != nil:
		l.breakOff(err)
		return errors.Join(err, <-ended)
	case what == request:
		down.halt()
		return l.handOver(ctx, down, <-ended)
	case what == secure:
		up.watch(answers)
	default:
		up.line = new(firstLine)
	}
	return errors.Join(l.say(up), <-ended)
}

// handOver carries HTTP on a connection on which the host could have sent first. The flow from the
// host was ended to prevent that.
func (l *link) handOver(ctx context.Context, down *flow, err error) error {
	switch {
	case down.passed:
		return denied(egress.ReasonBadHTTP)
	case !errors.Is(err, errHalted):
		return err
	}
	none := time.Time{}
	if err := errors.Join(l.host.SetReadDeadline(none), l.caller.SetDeadline(none)); err != nil {
		return err
	}
	return l.web(ctx, l.caller)
}

// listen recognises the protocol of the program's first data and leaves the data to be read again.
func (l *link) listen(up *flow) (guess, error) {
	c := l.caller
	if len(c.early) == 0 {
		silence := flow{clock: up.clock, in: c.Conn, from: c.Conn}
		if err := c.more(silence.read); errors.Is(err, io.EOF) {
			return opaque, nil
		} else if err != nil {
			return opaque, err
		}
	}
	if err := c.patience(l.waits.rest); err != nil {
		return opaque, err
	}
	if err := readHello(c, l.target); !errors.Is(err, hello.ErrNotTLS) {
		return secure, err
	}
	var line firstLine
	for judged := 0; ; {
		what, err := line.judge(c.early, c.early[judged:])
		switch {
		case what != undecided || err != nil:
			return what, err
		case len(c.early) > web.MaxHeader:
			return opaque, denied(egress.ReasonHeaderTooLarge)
		}
		judged = len(c.early)
		if err := c.more(c.Conn.Read); errors.Is(err, io.EOF) {
			return opaque, nil
		} else if err != nil {
			return opaque, tooSlow(err)
		}
	}
}

// say runs the flow from the program. When all data is passed on, it marks the host's
// connection, so that the end of the proxy does not abort it.
func (l *link) say(up *flow) error {
	defer l.caller.said()
	err := up.run()
	if err != nil {
		l.breakOff(err)
		return err
	}
	l.open.written(l.host.Conn)
	return nil
}

// start runs a flow in the background. If it fails, the other flow ends too.
func (l *link) start(f *flow) <-chan error {
	ended := make(chan error, 1)
	go func() {
		var err error
		defer func() { ended <- err }()
		defer l.recovered()
		if err = f.run(); err != nil && !errors.Is(err, errHalted) {
			l.breakOff(err)
		}
	}()
	return ended
}

// up is the flow from the program to its host.
func (l *link) up() *flow {
	return &flow{
		clock: newClock(l.waits.idle, l.caller.until),
		in:    l.secrets.Watch(l.caller), from: l.caller.Conn,
		out: l.host, to: l.host.Conn,
		spliced: l.secrets.Idle() && bothTCP(l.caller.Conn, l.host.Conn),
		left:    &l.budget.out, count: l.host.entry.Sent,
	}
}

// down returns the flow from the host to its program, and the state of TLS retries.
func (l *link) down(k *clock) (*flow, *retry) {
	answers := &retry{target: l.target}
	return &flow{
		clock: k,
		in:    &heardReader{l.host, answers}, from: l.host.Conn,
		out: l.caller, to: l.caller.Conn,
		spliced: bothTCP(l.caller.Conn, l.host.Conn),
		left:    &l.budget.in, count: l.host.entry.Received,
	}, answers
}

func bothTCP(a, b net.Conn) bool {
	_, one := a.(*net.TCPConn)
	_, other := b.(*net.TCPConn)
	return one && other
}
