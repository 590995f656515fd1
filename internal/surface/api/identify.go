package api

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"connectrpc.com/connect"

	"palyra/internal/core/access"
	"palyra/internal/core/canonical"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/identity/pairing"
	"palyra/internal/identity/token"
	"palyra/internal/ops/localsocket"
	"palyra/internal/surface/console"
)

type callerKey struct{}

// WithAuthenticationReport returns the context of a connection's requests, for the ConnContext
// of a server: each request with a credential calls report with whether it is valid.
func WithAuthenticationReport(ctx context.Context, report func(valid bool)) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

type reportKey struct{}

// identify finds the caller of a request by its certificate, by its token, or by the
// socket that it came over, and puts it into the request's context, where the guard reads it. A request without
// either goes on without a caller, because a few methods are public.
//
// A request with a known credential is in the list of live requests until its end,
// so that a revocation can end it. The credential is looked at before and again
// after the request enters the list: a revocation in between is seen by the second
// look.
//
// It ends at the latest with the credential. What came over the socket is looked at
// again while it lasts.
func identify(by credentials, live *liveRequests, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		socket, local := localsocket.PeerOf(r.Context())
		neighbor, near := localsocket.AgentOf(r.Context())
		identified := peer{address: from(r, socket, local, neighbor, near), local: local, near: near, claims: access.Surface(r.Header.Get(access.SurfaceHeader)), tls: r.TLS}
		visit, visiting := console.VisitOf(r.Context())
		identified.visits, identified.session = visiting, visit.Session
		identified.offered = by.issuers != nil && by.issuers.Offered()
		ctx := r.Context()
		if look := by.of(r); look != nil {
			identified.note(r, by.auth, log)
			identified.look(look)
			if report, ok := r.Context().Value(reportKey{}).(func(bool)); ok {
				report(identified.known)
			}
			if identified.known {
				var end context.CancelCauseFunc
				ctx, end = context.WithCancelCause(ctx)
				defer live.enter(end, identified.caller.DeviceID, cmp.Or(identified.key, identified.session), identified.vouched())()
				identified.look(look)
				ctx = access.WithDevice(ctx, identified.caller.DeviceID)
				defer until(end, identified.notAfter, identified.over)()
				if local {
					defer whileGood(ctx, end, func() error { _, _, err := look(); return err })()
				}
			}
		}
		if reason.Of(identified.err) == reason.KeyReplaced {
			// The client may have the newer key by now; only another connection shows it.
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, identified)))
	})
}

// AccessTokens reads access tokens of other issuers (package login/resource).
type AccessTokens interface {
	// Offered reports whether any are taken.
	Offered() bool
	// Authenticate maps a token to the caller that it stands for.
	Authenticate(ctx context.Context, token string) (access.Caller, error)
}

// credentials are what knows who shows what.
type credentials struct {
	auth    Authenticator
	tokens  Tokens
	issuers AccessTokens
}

// of returns how a request shows who it is of; nil when it does not.
func (by credentials) of(r *http.Request) func() (access.Caller, time.Time, error) {
	var chain []*x509.Certificate
	if r.TLS != nil {
		chain = r.TLS.PeerCertificates
	}
	shown := r.Header.Values("Authorization")
	socket, local := localsocket.PeerOf(r.Context())
	neighbor, near := localsocket.AgentOf(r.Context())
	auth := by.auth
	if visit, visiting := console.VisitOf(r.Context()); visiting {
		return visit.Look
	}
	switch {
	case near && neighbor.Refused != nil && len(shown) > 0:
		return func() (access.Caller, time.Time, error) { return access.Caller{}, time.Time{}, neighbor.Refused }
	case r.URL.Query().Has("access_token"):
		return func() (access.Caller, time.Time, error) {
			return access.Caller{}, time.Time{}, reason.Errorf(reason.Unauthenticated, "a token in a URL counts for nothing: URLs stand in logs and histories").
				WithRemedy("Send it as \"Authorization: Bearer ...\", and have another made: this one was seen.")
		}
	case near && neighbor.Socket && neighbor.Refused == nil && len(shown) == 0 && strings.HasPrefix(r.URL.Path, hooksPath):
		return func() (access.Caller, time.Time, error) {
			c, err := auth.AuthenticateAgent(strings.TrimPrefix(r.URL.Path, hooksPath))
			return c, time.Time{}, err
		}
	case local && len(shown) == 0:
		return func() (access.Caller, time.Time, error) { return onHost(auth, socket) }
	case local:
		return func() (access.Caller, time.Time, error) {
			return access.Caller{}, time.Time{}, reason.Errorf(reason.Unauthenticated, "the socket is for the operator of this host, and takes no token").
				WithRemedy("Use the token at the gateway's address.")
		}
	case len(shown) > 1 || len(shown) == 1 && len(chain) > 0:
		return func() (access.Caller, time.Time, error) {
			return access.Caller{}, time.Time{}, reason.Errorf(reason.Unauthenticated, "the request shows more than one credential").
				WithRemedy("Show a client certificate or one token, not both.")
		}
	case len(chain) > 0:
		return func() (access.Caller, time.Time, error) { return certificate(auth, chain) }
	case len(shown) == 1:
		return func() (access.Caller, time.Time, error) { return by.bearer(r, shown[0]) }
	default:
		return nil
	}
}

// bearer finds the caller of a token (RFC 6750, section 2.1): of the gateway's own, or
// of an issuer that is configured.
func (by credentials) bearer(r *http.Request, shown string) (c access.Caller, ends time.Time, err error) {
	scheme, text, _ := strings.Cut(shown, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return access.Caller{}, time.Time{}, reason.Errorf(reason.Unauthenticated, "the API takes \"Authorization: Bearer pal_...\" or a client certificate")
	}
	if by.issuers != nil && by.issuers.Offered() && !strings.HasPrefix(text, token.Prefix) {
		c, err = by.issuers.Authenticate(r.Context(), text)
	} else {
		c, err = by.tokens.Authenticate(text, addressFor(r))
	}
	if err != nil {
		return access.Caller{}, time.Time{}, err
	}
	return c, c.Token.ExpiresAt, nil
}

// hooksPath begins the path of the route of hooks, which ends with the agent.
const hooksPath = "/hooks/v1/"

// addressFor is where a token is shown from. A socket of agents is on this host.
func addressFor(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	at := from.Addr().WithZone("")
	if _, near := localsocket.AgentOf(r.Context()); near && !at.IsValid() {
		at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return at
}

// onHost finds the caller of the socket of the local operator.
func onHost(auth Authenticator, who localsocket.Peer) (access.Caller, time.Time, error) {
	if who.Refused != nil {
		return access.Caller{}, time.Time{}, who.Refused
	}
	c, err := auth.AuthenticateHost()
	return c, time.Time{}, err
}

type peer struct {
	caller access.Caller
	// key is the digest of the key that the peer's certificate is of, "" without one.
	key string
	// notAfter is when the caller's credential ends.
	notAfter time.Time
	known    bool
	// expired says that the certificate is over, and may be renewed by caller, who is
	// not known for anything else.
	expired bool
	err     error
	address string
	// local says that the request came over the socket of the local operator.
	local bool
	// near says that it came by a listener of agents on this host, whose process the
	// system named.
	near bool
	// visits says that it came to the origin of the console, of the session if it has one.
	visits  bool
	session string
	// claims is the surface that the client says it is.
	claims access.Surface
	// tls is the connection.
	tls *tls.ConnectionState
	// offered says that tokens of other issuers are taken.
	offered bool
}

// connectionOf is the connection of a request, as pairing binds it.
func connectionOf(ctx context.Context) (pairing.Connection, error) {
	who, _ := ctx.Value(callerKey{}).(peer)
	exporter, err := pairing.Exporter(who.tls)
	return pairing.Connection{Exporter: exporter, Address: who.address}, err
}

// note tells identity of a certificate that is shown. That it cannot be written down
// stops nobody: a full disk must not cut off the operators who would clear it.
func (p *peer) note(r *http.Request, auth Authenticator, log *slog.Logger) {
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return
	}
	chain := r.TLS.PeerCertificates
	p.key = canonical.Digest(chain[0].RawSubjectPublicKeyInfo)
	if err := auth.NoteUse(r.Context(), chain, p.address); err != nil {
		log.WarnContext(r.Context(), "noting the use of a credential", slog.String("error", err.Error()))
	}
}

// vouched is whom another issuer vouched for, zero for a credential of the gateway's own.
func (p *peer) vouched() access.Principal {
	if p.caller.Token == nil || p.caller.Token.Issuer == "" {
		return access.Principal{}
	}
	return p.caller.Principal
}

// over is why a request ends with its credential.
func (p *peer) over() error {
	if p.visits {
		return reason.Errorf(reason.Unauthenticated, "the session of the console ended at %s", p.notAfter.Format(time.RFC3339)).WithRemedy("Run `palyra console`.")
	}
	if p.caller.Token != nil {
		return reason.Errorf(reason.Unauthenticated, "the token %s expired at %s", p.caller.DeviceID, p.notAfter.Format(time.RFC3339))
	}
	return expiredCertificate(p.caller.DeviceID, p.notAfter)
}

func expiredCertificate(device string, end time.Time) error {
	return reason.Errorf(reason.CertificateExpired, "the certificate of device %s expired at %s", device, end.Format(time.RFC3339))
}

// look finds the caller from its credential.
func (p *peer) look(credential func() (access.Caller, time.Time, error)) {
	p.caller, p.notAfter, p.err = credential()
	p.caller.Address = p.address
	if !p.visits {
		p.caller.Surface = access.SurfaceGRPC
	}
	p.known, p.expired = p.err == nil, reason.Of(p.err) == reason.CertificateExpired
}

// certificate finds who shows a certificate. The caller of one that expired, and may
// be renewed, comes with an error whose reason is CertificateExpired.
func certificate(auth Authenticator, chain []*x509.Certificate) (access.Caller, time.Time, error) {
	end := chain[0].NotAfter
	caller, err := auth.Authenticate(chain)
	if err == nil {
		return caller, end, nil
	}
	renewing, expired := auth.AuthenticateExpired(chain)
	switch {
	case expired == nil:
		return renewing, end, expiredCertificate(renewing.DeviceID, end)
	case reason.Of(expired) == reason.KeyReplaced:
		return access.Caller{}, end, expired
	}
	return access.Caller{}, end, err
}

// shows reports whether the peer shows what a method needs.
func (p *peer) shows(needed Proof) bool {
	if p.visits {
		return p.known && needed == NeedsDevice
	}
	switch needed {
	case NeedsNothing:
		return true
	case NeedsRenewable:
		return p.expired || p.known && p.caller.Paired
	case NeedsCertificate:
		return p.known && p.caller.Paired
	default:
		return p.known
	}
}

// from is where a request came from: an address, or the socket and whose process.
func from(r *http.Request, socket localsocket.Peer, local bool, neighbor localsocket.Peer, near bool) string {
	switch {
	case local:
		return socket.String()
	case near:
		return neighbor.Agent()
	}
	return host(r.RemoteAddr)
}

func host(addr string) string {
	if h, _, err := net.SplitHostPort(addr); err == nil {
		return h
	}
	return addr
}

// authenticated reports whether the peer showed a credential of a member, be it one that
// expired and may be renewed.
func (p peer) authenticated() bool { return p.known || p.expired }

// keys name the rate limit buckets that the peer's requests are taken from: its
// principal and its address, or its network where that is IPv6. So many devices of
// one principal, or many principals at one address, get no more than one does. Callers without a credential have the
// address alone. Known callers on the gateway's own host have the principal alone:
// an operator and an agent there have the same address, and the agent could use up
// the requests that the operator needs to stop it.
func (p peer) keys() []string {
	if !p.authenticated() {
		return []string{limit.Address(p.address)}
	}
	keys := []string{p.caller.Principal.String()}
	if ip := net.ParseIP(p.address); !p.local && !p.near && (ip == nil || !ip.IsLoopback()) {
		keys = append(keys, limit.Address(p.address))
	}
	return keys
}

// refuseStrangers refuses requests of callers without the credential that their
// method needs, before their body is read. The guard alone would come too late: the
// library receives, inflates and decodes a message before it calls an interceptor,
// and strangers must not cause that work.
func (g *guard) refuseStrangers(next http.Handler) http.Handler {
	answers := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(callerKey{}).(peer)
		method, listed := methods[r.URL.Path]
		if who.known || !listed || who.shows(method.Needs) {
			next.ServeHTTP(w, r)
			return
		}
		err := toConnect(r.Context(), g.log, r.URL.Path, g.admit(r.Context(), r.URL.Path))
		if err == nil {
			// Nobody is admitted nowhere; were it otherwise, the body waits.
			next.ServeHTTP(w, r)
			return
		}
		if werr := answers.Write(w, r, err); werr != nil {
			// The peer is gone; there is nobody to tell.
			return
		}
	})
}
