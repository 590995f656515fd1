package proxy

import (
	"net"
	"sync"
)

// registry knows the open connections, so that all of them can be broken off.
// Its zero value is empty. It is safe for concurrent use.
type registry struct {
	mu    sync.Mutex
	ended bool
	conns map[net.Conn]struct{}
}

// add takes a connection in. After the end it breaks it off instead.
func (r *registry) add(c net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		reset(c)
		return false
	}
	if r.conns == nil {
		r.conns = map[net.Conn]struct{}{}
	}
	r.conns[c] = struct{}{}
	return true
}

func (r *registry) remove(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// end breaks all connections off.
func (r *registry) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for c := range r.conns {
		reset(c)
	}
}
