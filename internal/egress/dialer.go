package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"palyra/internal/core/reason"
)

// Dialer connects on behalf of one call to hosts that its rules allow and to addresses that are
// safe. It resolves each name once, removes every address that is not public unless an allow rule
// names that address or block, and dials the remaining ones by address. A Dialer is safe for
// concurrent use; its zero value reaches nothing.
type Dialer struct {
	// Rules are evaluated for the name and again for every address of it.
	Rules Rules
	// OpenByDefault allows hosts that no rule names while Rules.Allow is empty. They are still
	// limited to public addresses.
	OpenByDefault bool
	// Log receives the records of DialContext; Connect takes an entry as its argument.
	Log *ConnectionLog
	// Resolver resolves names; nil selects net.DefaultResolver.
	Resolver Resolver
	// Dial connects to an address; nil selects a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Interfaces lists the machine's own addresses; nil selects net.InterfaceAddrs.
	Interfaces func() ([]netip.Addr, error)

	mu      sync.Mutex
	lookups map[string]*lookup
	// last holds addresses to which a connection failed. They are tried after the others.
	last map[netip.Addr]bool
	// dropped holds the addresses whose refusal is already recorded.
	dropped map[drop]bool
	own     []netip.Addr
	ownRead time.Time
}

// Timeouts of one connection attempt: connectTime for the last address of a host, and less while
// further addresses remain, so that an IPv6 path that drops all packets does not delay IPv4.
// connectAll limits all addresses together.
const (
	connectTime  = 10 * time.Second
	connectFirst = 3 * time.Second
	connectAll   = 20 * time.Second
)

// maxRemembered limits the addresses that a Dialer remembers as failed, and those that it remembers
// as recorded. Addresses beyond it are tried in their order, and are recorded for each connection.
const maxRemembered = 4096

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

// Connect connects to a target by TCP and decides its entry; the caller counts the bytes and
// ends the entry. It returns the plain connection, so that relays can copy in the kernel.
// Errors carry reason.EgressDenied or reason.FetchFailed.
func (d *Dialer) Connect(ctx context.Context, t Target, e *Entry) (net.Conn, error) {
	return d.connect(ctx, "tcp", t, e)
}

// Preflight checks "host:port" as DialContext would, without connecting. A later connection may
// resolve to other addresses.
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

// begin returns a new entry of the log, or an unrecorded entry without a log.
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
	switch {
	case errors.Is(err, errLookups):
		e.Decide(VerdictDenied, ReasonBudgetNames, rule, netip.Addr{})
		return nil, Rule{}, err
	case err != nil:
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

// dialInTurn returns the first connection that succeeds or the last error, its address, and the
// addresses that failed before. addrs MUST NOT be empty.
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

// postpone records addresses to which a connection failed before the address of the entry. Later
// connections try them after the others.
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
		if len(d.last) < maxRemembered {
			d.last[addr] = true
		}
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

// Write counts before it writes, because the answer and the record may be read before Write
// returns.
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
