// Package proxy carries the connections of one sandboxed program to the hosts
// that it may reach, and no others. It accepts on listeners that were made
// inside the sandbox and handed out, so that nothing of it runs inside.
//
// A connection comes by one of four legs: transparent, where the program
// connects as if the network were open and the sandbox takes every address for
// its own, CONNECT and requests in absolute form to an HTTP proxy, and SOCKS 5.
// Each takes the same way from there: the target is judged, connected to from
// outside, and what the program says is checked before it is passed on. TLS has
// to ask for the name that was judged, HTTP for the host. What is neither, on a
// port other than 80 and 443, is passed on as it is.
package proxy

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/egress/web"
)

// Outward is the world outside as proxies see it. Its zero value is the real
// one.
type Outward struct {
	Resolver   egress.Resolver
	Interfaces func() ([]netip.Addr, error)
	Dial       func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the certificate authorities that inspected hosts are verified
	// against; nil means the system'p.
	Roots *x509.CertPool
	// Log gets what went wrong inside the gateway; nil means nowhere.
	Log *slog.Logger
}

// Listeners were made inside a sandbox, in its network namespace. What is nil
// is not served.
type Listeners struct {
	// Names and NamesTCP are the name service at 127.0.0.1:53.
	Names    net.PacketConn
	NamesTCP net.Listener
	// HTTP is the proxy at 127.0.0.1:3128, SOCKS the one at 127.0.0.1:1080.
	HTTP  net.Listener
	SOCKS net.Listener
	// Ports take whatever goes to a port of Proxy.Ports, in that order; the
	// local address of a connection is where the program wanted to go. Where
	// that is the address of a service above, it is served as such.
	Ports []net.Listener
}

// Proxy serves one program.
type Proxy struct {
	allowed egress.Reach
	outward Outward
	secrets *secret.Exchange
	// authority vouches for inspected hosts; nil when there are none.
	authority *web.Authority
	waits     waits
	// log is nil until Serve begins.
	log atomic.Pointer[egress.ConnectionLog]
}

// waits are how long a program may be silent.
type waits struct {
	// first is for its first word where it has to have it, rest for all of
	// what is checked once it has begun.
	first, rest time.Duration
	// idle is for both sides, once nothing is to be checked any more.
	idle time.Duration
	// last is for what the program has said, after its end.
	last time.Duration
}

// New returns a proxy for what passed its Check.
func New(g egress.Reach, out Outward) (*Proxy, error) {
	if err := g.Check(); err != nil {
		return nil, err
	}
	p := &Proxy{
		allowed: g, outward: out,
		waits: waits{first: 30 * time.Second, rest: 10 * time.Second, idle: 10 * time.Minute, last: lastWords},
	}
	if len(g.Inspect) > 0 || len(g.Secrets) > 0 {
		var err error
		if p.authority, err = web.NewAuthority(); err != nil {
			return nil, err
		}
	}
	p.secrets = secret.New(strings.ToLower(rand.Text()[:16]), g.Secrets)
	return p, nil
}

// Ports are those that the sandbox has to listen on.
func (p *Proxy) Ports() []uint16 { return p.allowed.Ports() }

// Bundle is what programs are to trust, in PEM: the system's authorities and
// that of the proxy. It is nil when no host is inspected.
func (p *Proxy) Bundle() []byte {
	if p.authority == nil {
		return nil
	}
	return p.authority.Bundle(web.SystemBundle())
}

// trust are the variables by which programs are told of a bundle: OpenSSL and
// what is built on it, Go, Node, Python, curl, git, cargo, the package managers,
// and the command lines of the clouds.
var trust = []string{
	"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
	"PIP_CERT", "npm_config_cafile", "YARN_HTTPS_CA_FILE_PATH", "DENO_CERT", "BUNDLE_SSL_CA_CERT", "COMPOSER_CAFILE",
	"HEX_CACERTS_PATH", "PERL_LWP_SSL_CA_FILE", "NIX_SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	"AWS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
}

// Env holds name=value pairs for the program: where the bundle is, and the
// placeholders of secrets. There is none about proxies: connections are
// captured, and what a program does not know it cannot get wrong.
func (p *Proxy) Env(bundle string) []string {
	env := p.secrets.Env()
	if p.authority == nil || bundle == "" {
		return env
	}
	for _, name := range trust {
		env = append(env, name+"="+bundle)
	}
	return env
}

// Scrub returns r without the secrets of the proxy.
func (p *Proxy) Scrub(r io.Reader) io.Reader { return p.secrets.Scrub(r) }

// Connections are what the program tried to reach, in order, and how many more
// there were than are listed.
func (p *Proxy) Connections() (list []tool.Connection, missed int) {
	if log := p.log.Load(); log != nil {
		return log.List()
	}
	return nil, 0
}

// Close wipes the secrets. Serve has returned, or was never called.
func (p *Proxy) Close() { p.secrets.Close() }
