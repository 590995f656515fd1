package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"palyra/internal/reason"
	"palyra/internal/tool"
)

// The verdicts of a connection in the record of a call.
const (
	VerdictAllowed = "allowed"
	VerdictDenied  = "denied"
	VerdictFailed  = "failed"
)

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Dialer connects on behalf of one call, to hosts that its rules allow and to
// addresses that are safe. It asks the resolver once per name, drops every
// address that is not public unless an allow rule names that very address or
// block, and dials what is left by address. It keeps a record of every attempt.
// A Dialer is safe for concurrent use; its zero value reaches nothing.
type Dialer struct {
	// Rules are asked for the name and again for every address of it.
	Rules Rules
	// OpenByDefault lets hosts pass that no rule names while Rules.Allow is
	// empty. They are still kept to public addresses.
	OpenByDefault bool
	// Resolver is net.DefaultResolver when nil.
	Resolver Resolver
	// Dial connects to an address; it is a net.Dialer's when nil.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Interfaces lists the machine's own addresses; it is net.InterfaceAddrs
	// when nil.
	Interfaces func() ([]netip.Addr, error)

	mu       sync.Mutex
	answers  map[string][]netip.Addr
	observed []*record
}

type record struct {
	connection tool.Connection
	in, out    atomic.Int64
}

// DialContext connects to "host:port". Errors carry reason.HostInvalid,
// reason.EgressDenied or reason.FetchFailed.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := SplitTarget(address)
	if err != nil {
		return nil, err
	}
	if network != "tcp" && network != "tcp4" && network != "tcp6" {
		return nil, reason.Errorf(reason.EgressDenied, "network %s is not allowed", clip(network))
	}
	safe, err := d.permitted(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return d.dialAny(ctx, network, host, port, safe)
}

// Preflight judges "host:port" as DialContext would, up to the connection, and
// returns its canonical form. Whoever connects later may get other addresses.
func (d *Dialer) Preflight(ctx context.Context, address string) (string, error) {
	host, port, err := SplitTarget(address)
	if err != nil {
		return "", err
	}
	if _, err := d.permitted(ctx, host, port); err != nil {
		return "", err
	}
	return host.Join(port), nil
}

// permitted returns the addresses of a host that may be dialled.
func (d *Dialer) permitted(ctx context.Context, host Host, port uint16) ([]netip.Addr, error) {
	if err := d.Rules.Check(host, port, d.OpenByDefault); err != nil {
		d.note(host, port, netip.Addr{}, VerdictDenied)
		return nil, err
	}
	found, err := d.resolve(ctx, host)
	if err != nil {
		d.note(host, port, netip.Addr{}, VerdictFailed)
		return nil, err
	}
	return d.survivors(host, port, found)
}

// resolve returns the addresses of a host, the same ones for the whole call.
func (d *Dialer) resolve(ctx context.Context, host Host) ([]netip.Addr, error) {
	if addr, ok := host.Addr(); ok {
		return []netip.Addr{addr}, nil
	}
	d.mu.Lock()
	known, ok := d.answers[host.name]
	d.mu.Unlock()
	if ok {
		return known, nil
	}
	var resolver Resolver = net.DefaultResolver
	if d.Resolver != nil {
		resolver = d.Resolver
	}
	// The dot at the end keeps the machine's search domains out of it.
	found, err := resolver.LookupNetIP(ctx, "ip", host.name+".")
	if err != nil {
		return nil, reason.Errorf(reason.FetchFailed, "resolving %s: %w", host, withoutServer(err))
	}
	for i := range found {
		found[i] = found[i].Unmap().WithZone("")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if first, ok := d.answers[host.name]; ok {
		return first, nil
	}
	if d.answers == nil {
		d.answers = map[string][]netip.Addr{}
	}
	d.answers[host.name] = found
	return found, nil
}

// withoutServer takes the address of the machine's name server out of an
// error, which the caller has no business to know.
func withoutServer(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return errors.New(dns.Err)
	}
	return err
}

// survivors drops what may not be dialled. One error stands for all.
func (d *Dialer) survivors(host Host, port uint16, found []netip.Addr) ([]netip.Addr, error) {
	own, err := d.ownAddresses()
	if err != nil {
		return nil, err
	}
	var safe []netip.Addr
	var last error
	for _, addr := range found {
		if err := d.judge(addr, port, own); err != nil {
			d.note(host, port, addr, VerdictDenied)
			last = err
			continue
		}
		safe = append(safe, addr)
	}
	switch {
	case len(safe) > 0:
		return safe, nil
	case last != nil:
		return nil, reason.Errorf(reason.EgressDenied, "%s: %w", host.Join(port), last)
	}
	return nil, reason.Errorf(reason.FetchFailed, "resolving %s: no address", host)
}

func (d *Dialer) judge(addr netip.Addr, port uint16, own []netip.Addr) error {
	if answer, _ := d.Rules.Match(HostOf(addr), port); answer == Denied {
		return errors.New("its address is denied")
	}
	class, block := Classify(addr)
	if class == Public && slices.Contains(own, addr) {
		class, block = OwnAddress, netip.PrefixFrom(addr, addr.BitLen())
	}
	if class == Public || class.unlockable() && d.Rules.unlocks(addr, block, port) {
		return nil
	}
	return fmt.Errorf("its address is not public (%s)", class)
}

func (d *Dialer) ownAddresses() ([]netip.Addr, error) {
	list := d.Interfaces
	if list == nil {
		list = interfaceAddresses
	}
	own, err := list()
	if err != nil {
		return nil, reason.Errorf(reason.EgressDenied, "listing the machine's own addresses: %w", err)
	}
	return own, nil
}

func interfaceAddresses() ([]netip.Addr, error) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	addrs := make([]netip.Addr, 0, len(list))
	for _, a := range list {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, prefix.Addr().Unmap())
		}
	}
	return addrs, nil
}

func (d *Dialer) dialAny(ctx context.Context, network string, host Host, port uint16, addrs []netip.Addr) (net.Conn, error) {
	dial := d.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	var last error
	for _, addr := range addrs {
		conn, err := dial(ctx, network, netip.AddrPortFrom(addr, port).String())
		if err != nil {
			d.note(host, port, addr, VerdictFailed)
			last = err
			if ctx.Err() != nil {
				break
			}
			continue
		}
		return &countedConn{Conn: conn, record: d.note(host, port, addr, VerdictAllowed)}, nil
	}
	return nil, reason.Errorf(reason.FetchFailed, "connecting to %s: %w", host.Join(port), last)
}

func (d *Dialer) note(host Host, port uint16, addr netip.Addr, verdict string) *record {
	r := &record{connection: tool.Connection{Host: host.String(), Port: int(port), Verdict: verdict}}
	if addr.IsValid() {
		r.connection.Address = addr.String()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.observed = append(d.observed, r)
	return r
}

// Observed returns the attempts so far, in order, with the bytes that went
// either way.
func (d *Dialer) Observed() []tool.Connection {
	d.mu.Lock()
	defer d.mu.Unlock()
	list := make([]tool.Connection, 0, len(d.observed))
	for _, r := range d.observed {
		c := r.connection
		c.BytesIn, c.BytesOut = r.in.Load(), r.out.Load()
		list = append(list, c)
	}
	return list
}

// countedConn counts the bytes of a connection into its record.
type countedConn struct {
	net.Conn
	record *record
}

func (c *countedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.record.in.Add(int64(n))
	return n, err
}

// Write counts before it writes: the answer may be read, and the record with
// it, while Write has not come back yet.
func (c *countedConn) Write(b []byte) (int, error) {
	c.record.out.Add(int64(len(b)))
	n, err := c.Conn.Write(b)
	c.record.out.Add(int64(n - len(b)))
	return n, err
}
