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
	// conns says of each whether all that was to be written is written.
	conns map[net.Conn]bool
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
		r.conns = map[net.Conn]bool{}
	}
	r.conns[c] = false
	return true
}

// written says that all that was to be written to a connection is, so that the
// end does not take it back.
func (r *registry) written(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.conns[c]; ok {
		r.conns[c] = true
	}
}

func (r *registry) remove(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.conns, c)
}

// end breaks all connections off, but for what is written.
func (r *registry) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for c, written := range r.conns {
		if written {
			c.Close()
		} else {
			reset(c)
		}
	}
}
