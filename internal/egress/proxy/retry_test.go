package proxy

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"slices"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/egress/proxy/hello"
)

// record returns a TLS record.
func record(kind byte, content []byte) []byte {
	return append([]byte{kind, 3, 3, byte(len(content) >> 8), byte(len(content))}, content...)
}

// serverHi returns the start of a ServerHello with the given random.
func serverHi(t *testing.T, random string) []byte {
	t.Helper()
	told := must.Get(hex.DecodeString(random))(t)
	return record(recordHandshake, slices.Concat([]byte{serverHello, 0, 0, 38, 3, 3}, told, []byte{0, 0x13, 0x01, 0}))
}

const otherRandom = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// A host may request a second hello. Some servers use the name in that one.
func TestASecondHello(t *testing.T) {
	t.Parallel()
	good, evil, none := clientHello(t, "api.test"), clientHello(t, "evil.test"), clientHello(t, "")
	warning, cipher := record(recordAlert, []byte{1, 112}), record(recordCipher, []byte{1})
	early := record(recordData, bytes.Repeat([]byte("early"), 2000))
	again, taken := serverHi(t, retryRandom), serverHi(t, otherRandom)
	exchange := slices.Concat(cipher, record(recordHandshake, []byte{16, 0, 0, 1, 0}))
	for name, c := range map[string]struct {
		// The client sends first before the host's answer, and then after it.
		first, answer, then []byte
		reason              string
	}{
		"of the same name":            {good, again, slices.Concat(cipher, good, early), ""},
		"of the same name, in pieces": {good, again, slices.Concat(cipher, records(good, 50), early), ""},
		"of another name":             {good, again, slices.Concat(cipher, evil), egress.ReasonNameMismatch},
		"of another name, in pieces":  {good, again, slices.Concat(cipher, records(evil, 50)), egress.ReasonNameMismatch},
		"without a name":              {good, again, none, egress.ReasonNoName},
		"behind early data":           {slices.Concat(good, early, early), again, slices.Concat(cipher, evil), egress.ReasonNameMismatch},
		"behind a warning":            {good, slices.Concat(warning, again), slices.Concat(warning, evil), egress.ReasonNameMismatch},
		"before the answer":           {slices.Concat(good, evil), again, nil, egress.ReasonNameMismatch},
		"behind the right one":        {good, again, slices.Concat(good, record(recordData, []byte("x"))), ""},
		"with something else in it":   {good, again, record(recordHandshake, []byte{16, 0, 0, 1, 0}), egress.ReasonBadTLS},
		"in another record":           {good, again, record(24, evil[5:]), egress.ReasonBadTLS},
		// An answer in small records is not parsed: the bytes in the place of the random belong to
		// another record.
		"after an answer in pieces": {good, records(again, 20), evil, egress.ReasonNameMismatch},
		// After the hello is accepted, later data that resembles a hello is encrypted data.
		"that is none":                  {good, taken, slices.Concat(exchange, evil, []byte("anything")), ""},
		"that is none behind a warning": {good, slices.Concat(warning, taken), slices.Concat(exchange, evil), ""},
	} {
		for _, target := range []string{"api.test:443", "api.test:8443"} {
			t.Run(name+" "+target, func(t *testing.T) {
				w := newWorld(t)
				heard := make(chan []byte, 1)
				w.host(target, func(conn net.Conn) {
					_, first, err := hello.Read(conn, hello.Most)
					if err == nil {
						_, err = conn.Write(c.answer)
					}
					if err != nil && c.reason == "" {
						t.Error(err)
					}
					rest, _ := io.ReadAll(conn) // may end with a reset
					heard <- append(first, rest...)
				})
				w.serve(grantOf(t, target))
				conn := w.must(w.socks5(target))
				defer conn.Close()
				must.Get(conn.Write(c.first))(t)
				answer := make([]byte, len(c.answer))
				if _, err := io.ReadFull(conn, answer); err == nil {
					_, _ = conn.Write(c.then) // the connection may be reset
					_ = closeWrite(conn)
				} else if c.reason == "" {
					t.Fatal(err)
				}
				_, _ = io.ReadAll(conn)
				said := slices.Concat(c.first, c.then)
				if got := <-heard; c.reason == "" && !bytes.Equal(got, said) || bytes.Contains(got, []byte("evil.test")) && c.reason != "" {
					t.Errorf("the host heard %d bytes of %d: %q", len(got), len(said), got)
				}
				if got := w.only(); got.Reason != c.reason {
					t.Errorf("ledger: %+v", got)
				}
			})
		}
	}
}

// Handshakes of honest clients and hosts succeed with any parameters: a second hello, an older
// version, a resumed session.
func TestHonestHandshakes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]func(client, host *tls.Config){
		"a second hello": func(_, host *tls.Config) { host.CurvePreferences = []tls.CurveID{tls.CurveP521} },
		"TLS 1.2":        func(_, host *tls.Config) { host.MaxVersion = tls.VersionTLS12 },
		"TLS 1.2, resumed": func(client, host *tls.Config) {
			host.MaxVersion, host.SessionTicketsDisabled = tls.VersionTLS12, false
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		},
		"TLS 1.3, resumed": func(client, host *tls.Config) {
			host.SessionTicketsDisabled = false
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		},
	} {
		for _, target := range []string{"api.test:443", "api.test:8443"} {
			t.Run(name+" "+target, func(t *testing.T) {
				w := newWorld(t)
				host := w.authority.Config(mustHost(t, "api.test"))
				client := &tls.Config{RootCAs: w.roots, ServerName: "api.test", MinVersion: tls.VersionTLS12}
				c(client, host)
				w.host(target, func(conn net.Conn) {
					secured := tls.Server(conn, host)
					defer secured.Close()
					echo(secured)
				})
				w.serve(grantOf(t, target))
				for range 3 {
					conn := w.must(w.connect(target))
					secured := tls.Client(conn, client)
					exchange(t, secured, string(bytes.Repeat([]byte("inside TLS "), 10_000)))
					secured.Close()
				}
				for _, c := range w.ledger() {
					if c.Reason != "" {
						t.Errorf("ledger: %+v", c)
					}
				}
			})
		}
	}
}
