package dns

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"palyra/internal/core/must"
)

// flood is a socket that always has another query.
type flood struct {
	net.PacketConn
	query   []byte
	closing sync.Once
	closed  chan struct{}
	answers int
}

func (f *flood) ReadFrom(b []byte) (int, net.Addr, error) {
	select {
	case <-f.closed:
		return 0, nil, net.ErrClosed
	default:
		return copy(b, f.query), nil, nil
	}
}

func (f *flood) WriteTo(b []byte, _ net.Addr) (int, error) {
	f.answers++
	return len(b), nil
}

// Close may be called by several goroutines at once, like the Close method of net.PacketConn.
func (f *flood) Close() error {
	f.closing.Do(func() { close(f.closed) })
	return nil
}

// about reports whether the number of answers fits three seconds of constant queries.
func about(answers int) bool {
	const want = mostAtOnce + 3*perSecond
	return answers >= want-perSecond/50 && answers <= want+1
}

// TestFloodOfPackets: a program that queries constantly gets a limited number of answers a
// second.
func TestFloodOfPackets(t *testing.T) {
	t.Parallel()
	for name, text := range map[string][]byte{"questions": query(t, "example.org.", dnsmessage.TypeA), "refused": query(t, "evil.example.", dnsmessage.TypeA)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				f := &flood{query: text, closed: make(chan struct{})}
				must.Check(t, newService(t, "example.org").ServePackets(ctx, f))
				if !about(f.answers) {
					t.Errorf("%d answers in 3 s", f.answers)
				}
			})
		})
	}
}

// TestFloodOnStreams: the same limit applies to all connections together.
func TestFloodOnStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		s := newService(t, "example.org")
		text := query(t, "example.org.", dnsmessage.TypeA)
		framed := append(binary.BigEndian.AppendUint16(nil, uint16(len(text))), text...)
		ended := make(chan int)
		for range 4 {
			near, far := net.Pipe()
			go s.ServeConn(ctx, far)
			go func() {
				defer near.Close()
				answers := 0
				for ; ; answers++ {
					if _, err := near.Write(framed); err != nil {
						break
					}
					if _, err := io.ReadFull(near, make([]byte, len(text)+16)); err != nil { // an A record has 16 bytes
						break
					}
					_, _ = near.Read(make([]byte, 2))
				}
				ended <- answers
			}()
		}
		all := 0
		for range 4 {
			all += <-ended
		}
		if !about(all) {
			t.Errorf("%d answers in 3 s", all)
		}
	})
}

// TestOrdinaryPace: a resolver that queries both families, and retries, is not delayed.
func TestOrdinaryPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p pace
		for range 60 {
			start := time.Now()
			for range 2 * 2 * 200 { // names a second
				if !p.wait(t.Context()) {
					t.Fatal("the pace has ended")
				}
			}
			if took := time.Since(start); took != 0 {
				t.Fatalf("it took %s", took)
			}
			time.Sleep(time.Second)
		}
		// After a long pause, only mostAtOnce answers are free of delay.
		time.Sleep(time.Hour)
		start := time.Now()
		for range mostAtOnce {
			p.wait(t.Context())
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("what is free took %s", took)
		}
		if p.wait(t.Context()); time.Since(start) == 0 {
			t.Error("more than that was free")
		}
	})
}

// TestPaceEndsWithContext: the end of the context ends a wait.
func TestPaceEndsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var p pace
		for range mostAtOnce {
			p.wait(ctx)
		}
		cancel()
		start := time.Now()
		if p.wait(ctx) || time.Since(start) != 0 {
			t.Errorf("it went on, after %s", time.Since(start))
		}
	})
}
