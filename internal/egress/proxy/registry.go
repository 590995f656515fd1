package proxy

import (
	"net"
	"sync"
)

// registry holds the open connections, so that all of them can be aborted. Its zero value is empty.
// It is safe for concurrent use.
type registry struct {
	mu    sync.Mutex
	ended bool
	// conns maps each connection to whether all its data is written.
	conns map[net.Conn]bool
}

// add registers a connection. After end it aborts the connection instead.
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

// written marks a connection whose data is completely written, so that end does not abort it.
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

// end aborts all connections except the completely written ones.
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
