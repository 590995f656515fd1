package egress

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"

	"palyra/internal/core/reason"
)

// Dialer connects on behalf of one call, to hosts that its rules allow and to
// addresses that are safe. It asks the resolver once per name, drops every
// address that is not public unless an allow rule names that very address or
// block, and dials what is left by address. A Dialer is safe for concurrent
// use; its zero value reaches nothing.
type Dialer struct {
	// Rules are asked for the name and again for every address of it.
	Rules Rules
	// OpenByDefault lets hosts pass that no rule names while Rules.Allow is
	// empty. They are still kept to public addresses.
	OpenByDefault bool
	// Log takes the record of DialContext; Connect is given an entry.
	Log *ConnectionLog
	// Resolver is net.DefaultResolver when nil.
	Resolver Resolver
	// Dial connects to an address; it is a net.Dialer's when nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Interfaces lists the machine's own addresses; it is net.InterfaceAddrs
	// when nil.
	Interfaces func() ([]netip.Addr, error)

	mu      sync.Mutex
	lookups map[string]*lookup
	// last are addresses that could not be connected to. They are tried after
	// the others.
	last map[netip.Addr]bool
	// dropped are the addresses whose refusal is on record already.
	dropped map[drop]bool
	own     []netip.Addr
	ownRead time.Time
}

// How long a connection to one address may take to come about: connectTime for
// the last address of a host, less while there are others, so that an IPv6 path
// that swallows everything does not hold IPv4 up. connectAll bounds all
// addresses together.
const (
	connectTime  = 10 * time.Second
	connectFirst = 3 * time.Second
	connectAll   = 20 * time.Second
)

// DialContext connects to "host:port" and counts the bytes; it is for clients
// such as net/http. Errors carry reason.HostInvalid, reason.EgressDenied or
// reason.FetchFailed.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	target, err := ParseTarget(address)
	if err != nil {
		return nil, err
	}
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, reason.Errorf(reason.EgressDenied, "network %s is not allowed", quoted(network))
	}
	entry := d.begin(target)
	conn, err := d.connect(ctx, network, target, entry)
	if err != nil {
		entry.End()
		return nil, err
	}
	return &countedConn{Conn: conn, entry: entry}, nil
}

// Connect connects to a target by TCP and decides its entry; counting and
// ending are the caller's business. What it returns is the plain connection,
// for relays that leave the copying to the kernel. Errors carry
// reason.EgressDenied or reason.FetchFailed.
func (d *Dialer) Connect(ctx context.Context, t Target, e *Entry) (net.Conn, error) {
	return d.connect(ctx, "tcp", t, e)
}

// Preflight judges "host:port" as DialContext would, up to the connection.
// Whoever connects later may get other addresses.
func (d *Dialer) Preflight(ctx context.Context, address string) error {
	target, err := ParseTarget(address)
	if err != nil {
		return err
	}
	entry := d.begin(target)
	defer entry.End()
	_, _, err = d.permitted(ctx, target, entry)
	return err
}

// begin is an entry of the log, or one that nobody will read.
func (d *Dialer) begin(t Target) *Entry {
	if d.Log == nil {
		return NewConnectionLog(time.Now()).Begin(LegTool, t)
	}
	return d.Log.Begin(LegTool, t)
}

// permitted returns the addresses of a target that may be dialled, and the
// rule that allowed its name.
func (d *Dialer) permitted(ctx context.Context, t Target, e *Entry) ([]netip.Addr, Rule, error) {
	answer, rule := d.Rules.Match(t.Host, t.Port)
	if err := d.Rules.refuse(answer, rule, t, d.OpenByDefault); err != nil {
		why := ReasonUnlisted
		if answer == Denied {
			why = ReasonDeniedRule
		}
		e.Decide(VerdictDenied, why, rule, netip.Addr{})
		return nil, Rule{}, err
	}
	found, err := d.resolve(ctx, t.Host)
	if err != nil {
		e.Decide(VerdictFailed, ReasonUnresolved, rule, netip.Addr{})
		return nil, Rule{}, err
	}
	safe, err := d.candidates(t, found, e)
	return safe, rule, err
}

func (d *Dialer) connect(ctx context.Context, network string, t Target, e *Entry) (net.Conn, error) {
	addrs, rule, err := d.permitted(ctx, t, e)
	if err != nil {
		return nil, err
	}
	conn, addr, before, err := d.dialInTurn(ctx, network, t.Port, addrs)
	d.postpone(before, e, rule)
	if err != nil {
		e.Decide(VerdictFailed, ReasonUnreachable, rule, addr)
		return nil, reason.Errorf(reason.FetchFailed, "connecting to %s: %w", t, err)
	}
	if o, found := d.Rules.checkNotOwn(conn, t, addr); found {
		conn.Close()
		e.Decide(VerdictDenied, o.why, Rule{}, addr)
		return nil, o.err(t)
	}
	e.Decide(VerdictAllowed, "", rule, addr)
	return conn, nil
}

// dialInTurn returns the first connection that comes about, or the last error,
// the address that it is of, and those that were tried in vain before. There
// is at least one address.
func (d *Dialer) dialInTurn(ctx context.Context, network string, port uint16, addrs []netip.Addr) (conn net.Conn, addr netip.Addr, before []netip.Addr, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectAll)
	defer cancel()
	last := len(addrs) - 1
	for i := 0; ; i++ {
		wait := connectFirst
		if i == last {
			wait = connectTime
		}
		conn, err = d.dial(ctx, network, netip.AddrPortFrom(addrs[i], port), wait)
		if err == nil || i == last || ctx.Err() != nil {
			return conn, addrs[i], addrs[:i], err
		}
	}
}

func (d *Dialer) dial(ctx context.Context, network string, to netip.AddrPort, wait time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	if d.Dial != nil {
		return d.Dial(ctx, network, to.String())
	}
	return new(net.Dialer).DialContext(ctx, network, to.String())
}

// postpone records addresses that were tried in vain before the one that the
// entry is about, and has later connections try them after the others.
func (d *Dialer) postpone(failed []netip.Addr, e *Entry, rule Rule) {
	for _, addr := range failed {
		e.beside(VerdictFailed, ReasonUnreachable, rule, addr)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, addr := range failed {
		if d.last == nil {
			d.last = map[netip.Addr]bool{}
		}
		d.last[addr] = true
	}
}

// countedConn counts the bytes of a connection into its entry.
type countedConn struct {
	net.Conn
	entry *Entry
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.entry.Received(int64(n))
	return n, err
}

// Write counts before it writes: the answer may be read, and the record with
// it, while Write has not come back yet.
func (c *countedConn) Write(b []byte) (int, error) {
	c.entry.Sent(int64(len(b)))
	n, err := c.Conn.Write(b)
	c.entry.Sent(int64(n - len(b)))
	return n, err
}

// Close ends the entry.
func (c *countedConn) Close() error {
	c.entry.End()
	return c.Conn.Close()
}
