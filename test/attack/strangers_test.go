//go:build linux

package attack

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// strangerRows are floods by callers without a credential, which must not lock out other
// callers. The controls are the same floods against an unsigned vote, and by an authenticated
// caller.
func strangerRows() []factRow {
	return []factRow{
		{"GW2-20", "signed vote during a flood of unsigned ones", "", "", func(g *gateway, late bool) string {
			g.restart(func(config string) string {
				return config + "\n[rate_limits.decide]\nper_second = 0.001\nburst = 8\n[rate_limits]\nglobal_factor = 4\n"
			})
			call := g.begin("call", "fs.write", "path=made", "content=x")
			a, _ := call.Asked()
			vote := g.palyra("approvals", "sign", a.ID, "--deny", "--reason", "no", "--digest", a.Digest).Out
			for i := range 60 {
				g.votesFrom(fmt.Sprintf("127.0.0.%d", 2+i), `{"vote":{}}`)
			}
			if !late {
				vote = strings.ReplaceAll(vote, `"no"`, `"on"`)
			}
			if status := g.votesFrom("127.0.0.2", vote); status != http.StatusTooManyRequests {
				return fmt.Sprint("answered with ", status)
			}
			return canary
		}},
		{"GW2-20", "freeze beside idle connections", "", "", func(g *gateway, late bool) string {
			if late {
				g.hold(1200) // listen.max_connections is 1024
			} else {
				g.crowd(1200)
			}
			for range 20 {
				if r := g.palyra("--credentials", filepath.Join(g.State, "operator"), "freeze", "--reason", "a flood"); r.Code != 0 {
					return canary + r.Err
				}
			}
			return ""
		}},
		{"GW2-20", "streams of one person without end", "", "", func(g *gateway, late bool) string {
			count := 200
			if late {
				count = 300 // the limit of a principal is 256
			}
			if opened, err := g.watch(count); opened < count {
				return fmt.Sprintf("%d were opened: %v", opened, err)
			}
			return canary
		}},
	}
}

// watch opens streams of the console as local, and returns how many were open at once and why
// the next one failed.
func (g *gateway) watch(count int) (opened int, err error) {
	g.T.Helper()
	b := g.bundle()
	ctx, end := context.WithCancel(g.T.Context())
	defer end()
	const each = 50 // streams per connection
	var console palyrav1connect.ConsoleServiceClient
	for opened < count {
		if opened%each == 0 {
			transport := &http.Transport{TLSClientConfig: b.ClientTLS(), ForceAttemptHTTP2: true}
			defer transport.CloseIdleConnections()
			console = palyrav1connect.NewConsoleServiceClient(&http.Client{Transport: transport}, "https://"+b.Address)
		}
		stream, err := console.WatchConsole(ctx, &palyrav1.WatchConsoleRequest{})
		if err == nil && !stream.Receive() {
			err = stream.Err()
		}
		if err != nil {
			return opened, err
		}
		defer stream.Close()
		opened++
	}
	return opened, nil
}

// bundle returns the credential of local.
func (g *gateway) bundle() identity.Bundle {
	g.T.Helper()
	return must.Get(identity.ReadBundle(filepath.Join(g.State, "operator")))(g.T)
}

// anonymous returns the TLS configuration of a client without a certificate.
func anonymous(b identity.Bundle) *tls.Config {
	c := b.ClientTLS()
	c.Certificates, c.GetClientCertificate = nil, nil
	return c
}

// votesFrom sends a vote from an address, and returns the status code.
func (g *gateway) votesFrom(address, vote string) int {
	g.T.Helper()
	b := g.bundle()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{TLSClientConfig: anonymous(b), DialContext: dialer.DialContext, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	r := must.Get(http.NewRequestWithContext(g.T.Context(), http.MethodPost, "https://"+b.Address+"/webhooks/v1/decisions", bytes.NewReader([]byte(vote))))(g.T)
	res := must.Get((&http.Client{Transport: transport}).Do(r))(g.T)
	must.Do(g.T, res.Body.Close())
	return res.StatusCode
}

// hold keeps idle connections open, and replaces each that is closed.
func (g *gateway) hold(count int) {
	g.T.Helper()
	b := g.bundle()
	var all sync.WaitGroup
	opened := make(chan bool, count)
	for range count {
		all.Go(func() {
			for first := true; g.T.Context().Err() == nil; first = false {
				conn, err := (&net.Dialer{}).DialContext(g.T.Context(), "tcp", b.Address)
				if first {
					opened <- err == nil
				}
				if err != nil {
					return
				}
				stop := context.AfterFunc(g.T.Context(), func() { _ = conn.Close() })
				_, _ = conn.Read(make([]byte, 1)) // until one side closes it
				stop()
				_ = conn.Close()
			}
		})
	}
	g.T.Cleanup(all.Wait)
	for range count {
		if !<-opened {
			g.T.Fatal("a connection could not be opened")
		}
	}
}

// crowd keeps connections open on which the local operator made a request.
func (g *gateway) crowd(count int) {
	g.T.Helper()
	b := g.bundle()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range count / 8 {
				client := clientOver(g.T, b.ClientTLS(), "")
				client.Timeout = time.Second
				post(client, "https://"+b.Address+"/palyra.v1.StatusService/GetStatus", "{}")
			}
		})
	}
	all.Wait()
}
