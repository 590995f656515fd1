package proxy

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

func TestHalfCloseIsPassedOn(t *testing.T) {
	t.Parallel()
	for leg, connect := range legs {
		t.Run(leg, func(t *testing.T) {
			w := newWorld(t)
			heard := make(chan []byte, 1)
			// The host answers after it has received everything.
			w.host("api.test:7", func(conn net.Conn) {
				all, _ := io.ReadAll(conn)
				heard <- all
				_, _ = io.WriteString(conn, "thank you")
			})
			w.serve(grantOf(t, "api.test:7"))
			conn := w.must(connect(w, "api.test:7"))
			must.Get(io.WriteString(conn, "that is all"))(t)
			must.Do(t, closeWrite(conn))
			answer, err := io.ReadAll(conn)
			if said := <-heard; err != nil || string(said) != "that is all" || string(answer) != "thank you" {
				t.Errorf("heard %q, answer %q, %v", said, answer, err)
			}
		})
	}
}

func TestHostThatOnlySends(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:13", func(conn net.Conn) { _, _ = io.WriteString(conn, "it is late\r\n") })
	w.serve(grantOf(t, "api.test:13"))
	conn := w.must(w.transparent("api.test:13"))
	if err := closeWrite(conn); err != nil { // the program sends nothing
		t.Fatal(err)
	}
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != "it is late\r\n" {
		t.Errorf("%q, %v", got, err)
	}
	if c := w.only(); c.BytesIn != int64(len(got)) || c.BytesOut != 0 || c.Reason != "" {
		t.Errorf("ledger: %+v", c)
	}
}

func TestAResetIsPassedOn(t *testing.T) {
	t.Parallel()
	t.Run("of the host", func(t *testing.T) {
		w := newWorld(t)
		w.host("api.test:7", func(conn net.Conn) {
			_, _ = io.ReadFull(conn, make([]byte, 5))
			reset(conn)
		})
		w.serve(grantOf(t, "api.test:7"))
		conn := w.must(w.connect("api.test:7"))
		w.wantDisconnect(conn, []byte("hello"))
		if c := w.only(); c.Verdict != egress.VerdictAllowed || c.Reason != "" {
			t.Errorf("ledger: %+v", c)
		}
	})
	t.Run("of the program", func(t *testing.T) {
		w := newWorld(t)
		seen := make(chan error, 1)
		w.host("api.test:7", func(conn net.Conn) {
			_, err := io.Copy(conn, conn)
			seen <- err
		})
		w.serve(grantOf(t, "api.test:7"))
		conn := w.must(w.connect("api.test:7"))
		exchange(t, conn, "hello")
		reset(conn)
		if err := <-seen; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the host sees %v", err)
		}
	})
}

// The kernel relays a long stream, unless the gateway must inspect it. The stream arrives
// complete and is counted exactly, in both directions.
func TestLongStreams(t *testing.T) {
	t.Parallel()
	sent := make([]byte, 9<<20+123)
	_, _ = rand.Read(sent)           // never fails
	for leg, connect := range legs { // the transparent leg of this test is not plain TCP
		t.Run(leg, func(t *testing.T) {
			w := newWorld(t)
			w.host("api.test:7", echo)
			w.serve(grantOf(t, "api.test:7"))
			conn := w.must(connect(w, "api.test:7"))
			go func() {
				_, _ = conn.Write(sent)
				_ = closeWrite(conn)
			}()
			got, err := io.ReadAll(conn)
			if err != nil || sha256.Sum256(got) != sha256.Sum256(sent) {
				t.Fatalf("%d bytes of %d, %v", len(got), len(sent), err)
			}
			if c := w.only(); c.BytesOut != int64(len(sent)) || c.BytesIn != int64(len(sent)) || c.Reason != "" {
				t.Errorf("ledger: %+v", c)
			}
		})
	}
}

// The time limit of a connection also applies to a fast stream.
func TestAFastStreamHasItsTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:9", func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	grant := grantOf(t, "api.test:9")
	grant.Budget = egress.Budget{Time: 2 * time.Second, BytesOut: 1 << 40}
	w.serve(grant)
	conn := w.must(w.connect("api.test:9"))
	_, _ = io.Copy(conn, endless{}) // ends with a reset
	if got := w.only(); got.Reason != egress.ReasonBudgetTime || got.Verdict != egress.VerdictAllowed {
		t.Errorf("ledger: %+v", got)
	}
}

// endless is an endless stream of lines.
type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = "x\n"[i%2]
	}
	return len(b), nil
}

// A program that sends "hello" gets its answer at once. A request whose first line it completes
// later is not forwarded.
func TestARequestInPieces(t *testing.T) {
	t.Parallel()
	for name, pieces := range map[string][]string{
		"an unknown method":    {"FROB", " / HTTP/1.1\r\nHost: evil.test\r\n\r\n"},
		"an empty line before": {"\r\n", "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n"},
		"a version in pieces":  {"frob / HT", "TP/1.1\r\n", "Host: evil.test\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			first, rest := make(chan string, 1), make(chan string, 1)
			w.host("api.test:8080", func(conn net.Conn) {
				said := make([]byte, len(pieces[0]))
				n, _ := io.ReadFull(conn, said)
				first <- string(said[:n])
				all, _ := io.ReadAll(conn) // may end with a reset
				rest <- string(all)
			})
			w.serve(grantOf(t, "api.test:8080"))
			conn := w.must(w.connect("api.test:8080"))
			must.Get(io.WriteString(conn, pieces[0]))(t)
			if said := <-first; said != pieces[0] {
				t.Errorf("the host heard %q first", said)
			}
			for _, piece := range pieces[1:] {
				if _, err := io.WriteString(conn, piece); err != nil {
					break // the connection was reset
				}
			}
			if n, err := conn.Read(make([]byte, 1)); err == nil { // the write may have received the reset
				t.Errorf("the program gets %d bytes", n)
			}
			if got := w.only(); got.Reason != egress.ReasonBadHTTP {
				t.Errorf("ledger: %+v", got)
			}
			if said := <-rest; said != "" {
				t.Errorf("the host heard %q", said)
			}
		})
	}
}

// A request in pieces with a known method is held back completely.
func TestARequestByteByByte(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:8080", pages)
	w.serve(grantOf(t, "api.test:8080"))
	conn := w.must(w.connect("api.test:8080"))
	bytewise := &slicer{Conn: conn, slice: func(conn net.Conn, b []byte) error {
		for i := range b {
			if _, err := conn.Write(b[i : i+1]); err != nil {
				return err
			}
		}
		return nil
	}}
	get(t, bytewise, "api.test:8080", "GET api.test:8080 ")
}

func TestRequestAfterAServerBanner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host("api.test:2525", banner)
	w.serve(grantOf(t, "api.test:2525"))
	conn := w.must(w.connect("api.test:2525"))
	must.Get(io.ReadFull(conn, make([]byte, 21)))(t)
	w.wantDisconnect(conn, []byte("POST / HTTP/1.1\r\nHost: api.test:2525\r\n\r\n"))
	if got := w.only(); got.Reason != egress.ReasonBadHTTP || got.BytesOut != 0 {
		t.Errorf("ledger: %+v", got)
	}
}
