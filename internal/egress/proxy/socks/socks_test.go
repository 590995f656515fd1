package socks

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// client is the data that one client sends, and the expected replies.
type client struct {
	io.Reader
	bytes.Buffer
}

func (c *client) Read(b []byte) (int, error) { return c.Reader.Read(b) }

const hi = "\x05\x01\x00"

func TestAccept(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("a", 49)+".", 5) // 250 bytes
	for _, test := range []struct {
		name, says, target string
		code               reason.Code
		// word is the reply to the request, -1 for none.
		word int
	}{
		{"name", hi + "\x05\x01\x00\x03\x0bExample.ORG\x01\xbb", "example.org:443", "", -1},
		{"IPv4", hi + "\x05\x01\x00\x01\xc0\x00\x02\x07\x00\x50", "192.0.2.7:80", "", -1},
		{"IPv6", hi + "\x05\x01\x00\x04\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05\x00\x50", "[2001:db8::5]:80", "", -1},
		{"mapped IPv4 is IPv4", hi + "\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01\x00\x50", "127.0.0.1:80", "", -1},
		{"address as a name", hi + "\x05\x01\x00\x03\x0a127.0.0.01\x00\x50", "", reason.HostInvalid, notAllowed},
		{"address in its usual form as a name", hi + "\x05\x01\x00\x03\x09127.0.0.1\x00\x50", "127.0.0.1:80", "", -1},
		{"several methods", "\x05\x03\x02\x01\x00\x05\x01\x00\x03\x01a\x00\x16", "a:22", "", -1},
		{"longest name", hi + "\x05\x01\x00\x03\xfc" + long + "aa\x00\x16", long + "aa:22", "", -1},
		{"name too long", hi + "\x05\x01\x00\x03\xff" + long + "aaaaa\x00\x16", "", reason.HostInvalid, notAllowed},
		{"NUL in the name", hi + "\x05\x01\x00\x03\x05a\x00b.c\x00\x16", "", reason.HostInvalid, notAllowed},
		{"empty name", hi + "\x05\x01\x00\x03\x00\x00\x16", "", reason.HostInvalid, notAllowed},
		{"BIND", hi + "\x05\x02\x00\x01\xc0\x00\x02\x07\x00\x50", "", reason.InvalidInput, noSuchCommand},
		{"UDP ASSOCIATE", hi + "\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00", "", reason.InvalidInput, noSuchCommand},
		{"unknown kind of address", hi + "\x05\x01\x00\x02\x00\x00", "", reason.InvalidInput, noSuchAddress},
		{"port 0", hi + "\x05\x01\x00\x03\x01a\x00\x00", "", reason.InvalidInput, notAllowed},
		{"reserved byte", hi + "\x05\x01\x01\x03\x01a\x00\x16", "", reason.InvalidInput, generalFailure},
		{"other version in the request", hi + "\x04\x01\x00\x03\x01a\x00\x16", "", reason.InvalidInput, generalFailure},
		{"ends in the request", hi + "\x05\x01\x00\x03\x09exam", "", reason.Internal, -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			// The data arrives one byte at a time, and is followed by data that is not part of the
			// request.
			rest := strings.NewReader(test.says + "rest")
			if strings.HasPrefix(test.name, "ends") {
				rest = strings.NewReader(test.says)
			}
			c := &client{Reader: iotest.OneByteReader(rest)}
			target, err := Accept(c)
			if test.code == "" {
				if left, _ := io.ReadAll(rest); err != nil || target.String() != test.target || string(left) != "rest" {
					t.Errorf("target %s, error %v, left %q", target, err, left)
				}
			} else if reason.Of(err) != test.code || !target.Host.IsZero() {
				t.Errorf("target %s, error %v", target, err)
			}
			answer := "\x05\x00"
			if test.word >= 0 {
				answer += "\x05" + string(rune(test.word)) + "\x00\x01\x00\x00\x00\x00\x00\x00"
			}
			if c.String() != answer {
				t.Errorf("answered %q, want %q", c.String(), answer)
			}
		})
	}
}

func TestGreetingsThatAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, says, answer string }{
		{"SOCKS 4", "\x04\x01\x00\x50\x01\x02\x03\x04\x00", ""},
		{"HTTP", "CONNECT a:443 HTTP/1.1\r\n", ""},
		{"password only", "\x05\x01\x02", "\x05\xff"},
		{"no method", "\x05\x00", "\x05\xff"},
		{"nothing", "", ""},
		{"ends in the methods", "\x05\x04\x00", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &client{Reader: strings.NewReader(test.says)}
			if target, err := Accept(c); err == nil || c.String() != test.answer {
				t.Errorf("target %s, error %v, answered %q", target, err, c.String())
			}
		})
	}
}

func TestReply(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		err  error
		word byte
	}{
		{"connected", nil, succeeded},
		{"denied", reason.Errorf(reason.EgressDenied, "no"), notAllowed},
		{"unreachable", reason.Errorf(reason.FetchFailed, "no"), hostUnreached},
		{"refused", reason.Errorf(reason.FetchFailed, "dial: %w", syscall.ECONNREFUSED), refused},
		{"other", errors.New("fault"), generalFailure},
	} {
		var out bytes.Buffer
		if err := Reply(&out, test.err); err != nil || out.Len() != 10 || out.Bytes()[0] != version || out.Bytes()[1] != test.word {
			t.Errorf("%s: %x, %v", test.name, out.Bytes(), err)
		}
	}
}

// TestSlowClient: the connection's deadline ends the handshake, at whatever point the client
// stops.
func TestSlowClient(t *testing.T) {
	t.Parallel()
	whole := hi + "\x05\x01\x00\x03\x0bexample.org\x01\xbb"
	for cut := range len(whole) {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer near.Close()
			must.Do(t, far.SetDeadline(time.Now().Add(10*time.Second)))
			go func() {
				_, _ = io.Copy(io.Discard, near)
			}()
			go func() {
				_, _ = near.Write([]byte(whole[:cut]))
			}()
			if _, err := Accept(far); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("after %d bytes: %v", cut, err)
			}
			far.Close()
		})
	}
}

// FuzzAccept: for any data from a client, no byte after the request is read, the replies are
// complete, and the result is a canonical target.
func FuzzAccept(f *testing.F) {
	for _, says := range []string{hi + "\x05\x01\x00\x03\x0bexample.org\x01\xbb", hi + "\x05\x01\x00\x01\xc0\x00\x02\x07\x00\x50", "\x04\x01", "\x05\xff"} {
		f.Add([]byte(says))
	}
	f.Fuzz(func(t *testing.T, says []byte) {
		r := bytes.NewReader(says)
		c := &client{Reader: r}
		target, err := Accept(c)
		if read := len(says) - r.Len(); read > 2+255+4+1+255+2 {
			t.Errorf("read %d bytes", read)
		}
		if n := c.Len(); n != 0 && n != 2 && n != 12 {
			t.Errorf("answered %x", c.Bytes())
		}
		if err != nil {
			return
		}
		again, err := hostOf(addressName, []byte(target.Host.String()))
		if err != nil || again != target.Host || target.Port == 0 || c.Len() != 2 {
			t.Errorf("target %s, again %s, %v", target, again, err)
		}
	})
}
