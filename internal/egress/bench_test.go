package egress

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// thousandRules returns hosts, wildcards and prefixes in equal parts.
func thousandRules(tb testing.TB) []Rule {
	tb.Helper()
	var list []string
	for i := range 333 {
		list = append(list, fmt.Sprintf("host-%d.example.org:443", i), fmt.Sprintf("*.zone-%d.example.net:443", i), fmt.Sprintf("11.%d.%d.0/24:443", i/250, i%250))
	}
	return must.Get(ParseRules(append(list, "last.example.com:443")))(tb)
}

func BenchmarkMatch(b *testing.B) {
	rules := Rules{Allow: thousandRules(b)}
	for name, text := range map[string]string{
		"first": "host-0.example.org:443", "last": "last.example.com:443", "wildcard": "a.b.zone-332.example.net:443", "address": "11.1.82.9:443",
		"unlisted": "host-0.example.org.evil.example:443", "port": "host-0.example.org:80",
	} {
		b.Run(name, func(b *testing.B) {
			to := target(b, text)
			for b.Loop() {
				rules.Match(to.Host, to.Port)
			}
		})
	}
}

func BenchmarkParseTarget(b *testing.B) {
	for b.Loop() {
		if _, err := ParseTarget("WWW.Example.org.:443"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	addr := netip.MustParseAddr("2606:4700::1111")
	for b.Loop() {
		Classify(addr)
	}
}

// BenchmarkConnect measures a connection to a server on the loopback interface, plain and
// through a Dialer with a thousand rules.
func BenchmarkConnect(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must.Do(b, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	defer func() { listener.Close(); <-done }()
	address := listener.Addr().String()
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			conn := must.Get(new(net.Dialer).DialContext(b.Context(), "tcp", address))(b)
			conn.Close()
		}
	})
	b.Run("dialer", func(b *testing.B) {
		to := target(b, address)
		d := &Dialer{Rules: Rules{Allow: append(thousandRules(b), rule(b, address))}}
		log := NewConnectionLog(time.Now())
		for b.Loop() {
			entry := log.Begin(LegTransparent, to)
			conn := must.Get(d.Connect(b.Context(), to, entry))(b)
			conn.Close()
			entry.End()
		}
	})
}
