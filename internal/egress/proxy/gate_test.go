package proxy

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"testing"
)

// fakeListener is a listener whose connections can report any destination address.
type fakeListener struct {
	net.Listener
	mu      sync.Mutex
	arrived chan net.Conn
	closed  chan struct{}
	close   func() error
}

func newFakeListener(t testing.TB) *fakeListener {
	g := &fakeListener{Listener: listen(t), arrived: make(chan net.Conn), closed: make(chan struct{})}
	g.close = sync.OnceValue(func() error {
		close(g.closed)
		return g.Listener.Close()
	})
	return g
}

func (g *fakeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-g.arrived:
		return conn, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

func (g *fakeListener) Close() error { return g.close() }

// dial connects with the given reported destination.
func (g *fakeListener) dial(to netip.AddrPort) (net.Conn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	inside, err := net.Dial("tcp", g.Addr().String())
	if err != nil {
		return nil, err
	}
	outside, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := outside.(*net.TCPConn)
	if !ok {
		return nil, errors.New("not TCP")
	}
	select {
	case g.arrived <- &arrived{tcp, net.TCPAddrFromAddrPort(to)}:
		return inside, nil
	case <-g.closed:
		return nil, net.ErrClosed
	}
}

// arrived is a connection with a fictitious destination.
type arrived struct {
	*net.TCPConn
	at *net.TCPAddr
}

func (a *arrived) LocalAddr() net.Addr { return a.at }
