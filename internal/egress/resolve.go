package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"palyra/internal/core/reason"
)

// Resolver resolves names; *net.Resolver implements it.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

const (
	// lookupTime is how long the resolver may take for one name.
	lookupTime = 10 * time.Second
	// lookupPause is the minimum time before a failed lookup is repeated.
	lookupPause = time.Second
	// maxAddresses is the maximum number of addresses of a name that are considered.
	maxAddresses = 32
	// maxLookups is the maximum number of names that one call may resolve. Their addresses are kept
	// until the call ends.
	maxLookups = 4096
)

// errLookups is the error of a name beyond maxLookups.
var errLookups = reason.Errorf(reason.EgressDenied, "the call has resolved %d names, which is the limit", maxLookups).
	WithRemedy("Use fewer hosts in one call.")

// lookup is one query to the resolver, in progress or answered. All fields except done are written
// only before done is closed.
type lookup struct {
	done  chan struct{}
	addrs []netip.Addr
	err   error
	ended time.Time
	// abandoned means that the caller was cancelled; other callers repeat the lookup.
	abandoned bool
}

// stale reports whether a lookup failed and may be repeated. A successful lookup applies to the
// whole call, so that no later answer adds addresses.
func (l *lookup) stale() bool {
	select {
	case <-l.done:
		return l.err != nil && (l.abandoned || time.Since(l.ended) >= lookupPause)
	default:
		return false
	}
}

// resolve returns the addresses of a host, the same ones for the whole call. At most one query for
// each name is in progress at a time.
func (d *Dialer) resolve(ctx context.Context, host Host) ([]netip.Addr, error) {
	if addr, ok := host.Addr(); ok {
		return []netip.Addr{addr}, nil
	}
	for {
		l, mine := d.lookup(host.name)
		if l == nil {
			return nil, errLookups
		}
		if mine {
			d.ask(ctx, host, l)
			return l.addrs, l.err
		}
		select {
		case <-l.done:
		case <-ctx.Done():
			return nil, reason.Errorf(reason.FetchFailed, "resolving %s: %w", host, context.Cause(ctx))
		}
		if !l.abandoned {
			return l.addrs, l.err
		}
	}
}

// lookup returns the lookup of a name, and whether the caller must perform it. It returns nil for a
// new name if the limit of names is reached.
func (d *Dialer) lookup(name string) (l *lookup, mine bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l = d.lookups[name]; l != nil && !l.stale() {
		return l, false
	}
	if _, known := d.lookups[name]; !known && len(d.lookups) == maxLookups {
		return nil, false
	}
	if d.lookups == nil {
		d.lookups = map[string]*lookup{}
	}
	l = &lookup{done: make(chan struct{})}
	d.lookups[name] = l
	return l, true
}

// ask performs a lookup.
func (d *Dialer) ask(ctx context.Context, host Host, l *lookup) {
	defer close(l.done)
	var resolver Resolver = net.DefaultResolver
	if d.Resolver != nil {
		resolver = d.Resolver
	}
	limited, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	// The final dot prevents the use of the machine's search domains.
	found, err := resolver.LookupNetIP(limited, "ip", host.name+".")
	l.ended = time.Now()
	if err == nil && len(found) == 0 {
		err = errors.New("no address")
	}
	if err != nil {
		l.abandoned = ctx.Err() != nil
		l.err = reason.Errorf(reason.FetchFailed, "resolving %s: %w", host, withoutServer(err))
		return
	}
	for _, addr := range found[:min(len(found), maxAddresses)] {
		if addr = addr.Unmap().WithZone(""); !slices.Contains(l.addrs, addr) {
			l.addrs = append(l.addrs, addr)
		}
	}
}

// withoutServer removes the address of the machine's name server from an error, because callers
// must not receive it.
func withoutServer(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return errors.New(dns.Err)
	}
	return err
}
