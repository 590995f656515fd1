// Package proxy carries the connections of one sandboxed program to its allowed hosts only. It
// accepts on listeners that were created inside the sandbox and passed out, so that no proxy code
// runs inside.
//
// A connection arrives on one of four legs. On the transparent leg the program connects
// directly, and the sandbox accepts every address. The others are CONNECT and requests in
// absolute form to an HTTP proxy, and SOCKS 5. The remaining path is the same: the target is
// checked and connected to from outside, and the program's data is checked before it is passed
// on. TLS must request the checked name, HTTP the checked host. Other protocols, on ports other
// than 80 and 443, are passed on unchanged.
//
// Every rule of a strict run needs a port: the sandbox listens on each port of a rule, and the
// kernel refuses the others at once. Listening on all ports would need 65,535 listeners, or a
// filter that prevents programs from serving on their own loopback. A connection to another
// port is not recorded, because it reaches no code of the gateway and no data leaves.
//
// The proxy connects to the host before the program sends data, since servers of SSH, SMTP and
// databases send first, and CONNECT and SOCKS must answer. Until then the host receives only a
// connection without data. Bytes are counted on the connection to the host: every leg has bytes
// there, and the budget concerns data that leaves the machine.
//
// A proxy belongs to one sandbox, is created with it and serves one program, because its ports,
// authority and placeholders are inside the sandbox. Times and budgets count from the start of the
// program.
package proxy

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
	"palyra/internal/egress/web"
)

// Outward is the proxies' access to the outside. Its zero value uses the real system.
type Outward struct {
	Resolver   egress.Resolver
	Interfaces func() ([]netip.Addr, error)
	Dial       func(ctx context.Context, network, address string) (net.Conn, error)
	// Roots are the certificate authorities that inspected hosts are verified against; nil means
	// the system's.
	Roots *x509.CertPool
	// Log receives internal errors of the gateway; nil discards them.
	Log *slog.Logger
}

// Listeners were created inside a sandbox, in its network namespace. A nil listener is not served.
type Listeners struct {
	// Names and NamesTCP are the name service at 127.0.0.1:53.
	Names    net.PacketConn
	NamesTCP net.Listener
	// HTTP is the proxy at 127.0.0.1:3128, SOCKS the one at 127.0.0.1:1080.
	HTTP  net.Listener
	SOCKS net.Listener
	// Ports accept connections to the ports of Proxy.Ports, in that order; the local address of a
	// connection is the destination of the program. A connection to the address of a service above
	// is served as that service.
	Ports []net.Listener
}

// Proxy serves one program.
type Proxy struct {
	allowed egress.Reach
	outward Outward
	secrets *secret.Exchange
	// authority issues certificates for inspected hosts; nil if no host is inspected.
	authority *web.Authority
	waits     waits
	// log is nil until Serve begins.
	log atomic.Pointer[egress.ConnectionLog]
}

// waits are the timeouts for a silent program.
type waits struct {
	// first is the timeout of the first data where the program must send first; rest is the timeout
	// of all checked data once it has started.
	first, rest time.Duration
	// idle is the timeout of both sides after the checks.
	idle time.Duration
	// last is the timeout of the program's remaining data after its end.
	last time.Duration
}

// New returns a proxy for a reach that passed its Check.
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

// Ports returns the ports on which the sandbox must listen: those of the rules, and the ports of the
// web, on which denied programs receive an answer that names the policy. An offline sandbox has
// none, because its program reaches only its own services.
func (p *Proxy) Ports() []uint16 {
	if p.Offline() {
		return nil
	}
	ports := p.allowed.Ports()
	for _, port := range []uint16{portHTTP, portTLS} {
		if !slices.Contains(ports, port) && len(ports) < egress.MaxPorts {
			ports = append(ports, port)
		}
	}
	slices.Sort(ports)
	return ports
}

// Offline reports whether no rule allows a host. Such a proxy only refuses names.
func (p *Proxy) Offline() bool { return len(p.allowed.Rules.Allow) == 0 }

// Bundle returns the certificates that programs must trust, in PEM: the system's authorities and
// the proxy's. It is nil if no host is inspected.
func (p *Proxy) Bundle() []byte {
	if p.authority == nil {
		return nil
	}
	return p.authority.Bundle(web.SystemBundle())
}

// trust lists the environment variables that name a bundle: OpenSSL and its users, Go, Node,
// Python, curl, git, cargo, the package managers, and the cloud command lines.
var trust = []string{
	"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
	"PIP_CERT", "npm_config_cafile", "YARN_HTTPS_CA_FILE_PATH", "DENO_CERT", "BUNDLE_SSL_CA_CERT", "COMPOSER_CAFILE",
	"HEX_CACERTS_PATH", "PERL_LWP_SSL_CA_FILE", "NIX_SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	"AWS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
}

// Env returns name=value pairs for the program: the path of the bundle, and the placeholders of
// secrets. It sets no proxy variables: connections are captured, so programs need no proxy
// configuration.
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

// Connections returns the program's connection attempts in order, and the number of unlisted ones.
func (p *Proxy) Connections() (list []tool.Connection, missed int) {
	if log := p.log.Load(); log != nil {
		return log.List()
	}
	return nil, 0
}

// Close wipes the secrets. It must not be called while Serve runs.
func (p *Proxy) Close() { p.secrets.Close() }
