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

// WithAuthenticationReport returns a context for the ConnContext of a server. Each request with a
// credential calls report with its validity.
func WithAuthenticationReport(ctx context.Context, report func(valid bool)) context.Context {
	return context.WithValue(ctx, reportKey{}, report)
}

type reportKey struct{}

// identify finds the caller of a request by its certificate, its token, or its socket, and stores
// it in the request's context for the guard. A request without a credential continues without a
// caller, because a few methods are public.
//
// A request with a known credential stays in the list of live requests until it ends, so that a
// revocation can cancel it. The credential is checked before and after the request enters the list:
// the second check catches a revocation between the two.
//
// The request ends at the latest when its credential expires. The credential of a request over the
// socket is checked again periodically.
func identify(by credentials, live *liveRequests, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		socket, local := localsocket.PeerOf(r.Context())
		neighbor, near := localsocket.AgentOf(r.Context())
		identified := peer{address: from(r, socket, local, neighbor, near), local: local, root: local && socket.Root(), near: near, claims: access.Surface(r.Header.Get(access.SurfaceHeader)), tls: r.TLS}
		session, visiting := console.VisitOf(r.Context())
		identified.visits, identified.session = visiting, session.Session
		identified.offered = by.issuers != nil && by.issuers.Offered()
		ctx := r.Context()
		if credential := by.of(r); credential != nil {
			identified.note(r, by.auth, log)
			identified.authenticate(credential)
			if report, ok := r.Context().Value(reportKey{}).(func(bool)); ok {
				report(identified.known)
			}
			if identified.known {
				var end context.CancelCauseFunc
				ctx, end = context.WithCancelCause(ctx)
				defer live.enter(end, identified.caller.DeviceID, cmp.Or(identified.key, identified.session), identified.externalMember())()
				identified.authenticate(credential)
				ctx = access.WithDevice(ctx, identified.caller.DeviceID)
				defer until(end, identified.notAfter, identified.expiredError)()
				if local {
					defer whileGood(ctx, end, func() error { _, _, err := credential(); return err })()
				}
			}
		}
		if reason.Of(identified.err) == reason.KeyReplaced {
			// The client may have the newer key by now, but presents it only on a new connection.
			w.Header().Set("Connection", "close")
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(ctx, callerKey{}, identified)))
	})
}

// AccessTokens validates access tokens of other issuers (package login/resource).
type AccessTokens interface {
	// Offered reports whether such tokens are accepted.
	Offered() bool
	// Authenticate maps a token to its caller.
	Authenticate(ctx context.Context, token string) (access.Caller, error)
}

// credentials authenticates the credentials of requests.
type credentials struct {
	auth    Authenticator
	tokens  Tokens
	issuers AccessTokens
}

// of returns the authentication function for the credential of a request; nil if it has none.
func (by credentials) of(r *http.Request) func() (access.Caller, time.Time, error) {
	var chain []*x509.Certificate
	if r.TLS != nil {
		chain = r.TLS.PeerCertificates
	}
	headers := r.Header.Values("Authorization")
	socket, local := localsocket.PeerOf(r.Context())
	neighbor, near := localsocket.AgentOf(r.Context())
	auth := by.auth
	if session, visiting := console.VisitOf(r.Context()); visiting {
		return session.Look
	}
	switch {
	case near && neighbor.Refused != nil && len(headers) > 0:
		return func() (access.Caller, time.Time, error) { return access.Caller{}, time.Time{}, neighbor.Refused }
	case r.URL.Query().Has("access_token"):
		return func() (access.Caller, time.Time, error) {
			return access.Caller{}, time.Time{}, reason.Errorf(reason.Unauthenticated, "tokens in a URL are not accepted: URLs are kept in logs and histories").
				WithRemedy("Send it as \"Authorization: Bearer ...\", and replace the token: it may have been logged.")
		}
	case near && neighbor.Socket && neighbor.Refused == nil && len(headers) == 0 && strings.HasPrefix(r.URL.Path, hooksPath):
		return func() (access.Caller, time.Time, error) {
			c, err := auth.AuthenticateAgent(strings.TrimPrefix(r.URL.Path, hooksPath))
			return c, time.Time{}, err
		}
	case local && len(headers) == 0:
		return func() (access.Caller, time.Time, error) { return onHost(auth, socket) }
	case local:
		return func() (access.Caller, time.Time, error) {
			return access.Caller{}, time.Time{}, reason.Errorf(reason.Unauthenticated, "the socket is for the operator of this host and does not accept tokens").
				WithRemedy("Use the token at the gateway's address.")
		}
	case len(headers) > 1 || len(headers) == 1 && len(chain) > 0:
		return func() (access.Caller, time.Time, error) {
			return access.Caller{}, time.Time{}, reason.Errorf(reason.Unauthenticated, "the request has more than one credential").
				WithRemedy("Use either a client certificate or one token.")
		}
	case len(chain) > 0:
		return func() (access.Caller, time.Time, error) { return certificate(auth, chain) }
	case len(headers) == 1:
		return func() (access.Caller, time.Time, error) { return by.bearer(r, headers[0]) }
	default:
		return nil
	}
}

// bearer returns the caller of a token (RFC 6750, section 2.1) that the gateway or a configured
// issuer issued.
func (by credentials) bearer(r *http.Request, headers string) (c access.Caller, ends time.Time, err error) {
	scheme, text, _ := strings.Cut(headers, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return access.Caller{}, time.Time{}, reason.Errorf(reason.Unauthenticated, "the API requires \"Authorization: Bearer pal_...\" or a client certificate")
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

// hooksPath is the path prefix of the hooks route; the agent's name follows.
const hooksPath = "/hooks/v1/"

// addressFor returns the address from which a token is used. A connection over the agents' socket
// has no address and counts as loopback.
func addressFor(r *http.Request) netip.Addr {
	from, _ := netip.ParseAddrPort(r.RemoteAddr)
	at := from.Addr().WithZone("")
	if _, near := localsocket.AgentOf(r.Context()); near && !at.IsValid() {
		at = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return at
}

// onHost returns the caller of the local operator's socket.
func onHost(auth Authenticator, who localsocket.Peer) (access.Caller, time.Time, error) {
	if who.Refused != nil {
		return access.Caller{}, time.Time{}, who.Refused
	}
	c, err := auth.AuthenticateHost()
	return c, time.Time{}, err
}

type peer struct {
	caller access.Caller
	// key is the digest of the key in the peer's certificate, "" without one.
	key string
	// notAfter is when the caller's credential expires.
	notAfter time.Time
	known    bool
	// expired is true for an expired certificate that the caller may renew. It authenticates the
	// caller for the renewal only.
	expired bool
	err     error
	address string
	// local is true for requests over the socket of the local operator.
	local bool
	// root is true for requests over that socket from root.
	root bool
	// near is true for requests over a listener of agents on this host, whose process the operating
	// system identified.
	near bool
	// visits is true for requests to the origin of the console; session is its session, if any.
	visits  bool
	session string
	// claims is the surface that the client names.
	claims access.Surface
	// tls is the state of the connection.
	tls *tls.ConnectionState
	// offered is true if tokens of other issuers are accepted.
	offered bool
}

// connectionOf returns the connection of a request, to which pairing binds.
func connectionOf(ctx context.Context) (pairing.Connection, error) {
	who, _ := ctx.Value(callerKey{}).(peer)
	exporter, err := pairing.Exporter(who.tls)
	return pairing.Connection{Exporter: exporter, Address: who.address}, err
}

// note reports the use of a certificate to package identity. A failed write does not refuse the
// request: a full disk must not lock out the operators who would clear it.
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

// externalMember returns the member that another issuer authenticated; zero for a credential that
// the gateway issued.
func (p *peer) externalMember() access.Principal {
	if p.caller.Token == nil || p.caller.Token.Issuer == "" {
		return access.Principal{}
	}
	return p.caller.Principal
}

// expiredError returns the error of a request whose credential expired.
func (p *peer) expiredError() error {
	if p.visits {
		return reason.Errorf(reason.Unauthenticated, "the console session expired at %s", p.notAfter.Format(time.RFC3339)).WithRemedy("Run `palyra console`.")
	}
	if p.caller.Token != nil {
		return reason.Errorf(reason.Unauthenticated, "the token %s expired at %s", p.caller.DeviceID, p.notAfter.Format(time.RFC3339))
	}
	return expiredCertificate(p.caller.DeviceID, p.notAfter)
}

func expiredCertificate(device string, end time.Time) error {
	return reason.Errorf(reason.CertificateExpired, "the certificate of device %s expired at %s", device, end.Format(time.RFC3339))
}

// authenticate authenticates the caller by its credential.
func (p *peer) authenticate(credential func() (access.Caller, time.Time, error)) {
	p.caller, p.notAfter, p.err = credential()
	p.caller.Address = p.address
	if !p.visits {
		p.caller.Surface = access.SurfaceGRPC
	}
	p.known, p.expired = p.err == nil, reason.Of(p.err) == reason.CertificateExpired
}

// certificate returns the caller of a certificate. For an expired certificate that may be
// renewed, it returns the caller and an error whose reason is CertificateExpired.
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

// presents reports whether the peer presents the credential that a method needs.
func (p *peer) presents(needed Proof) bool {
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
	case NeedsHost:
		return p.known || p.root
	default:
		return p.known
	}
}

// from returns the source of a request: an address, or the socket and the process.
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

// authenticated reports whether the peer presented a member's credential, including an expired
// certificate that may be renewed.
func (p peer) authenticated() bool { return p.known || p.expired }

// keys returns the rate limit buckets of the peer: its principal and its address, or its
// network for IPv6. Many devices of one principal, or many principals at one address, therefore
// share one limit. A caller without a credential has only the bucket of its address. An
// authenticated caller on the gateway's own host has only the bucket of its principal. An
// operator and an agent there have the same address, and the agent could otherwise exhaust the
// requests that the operator needs to stop it.
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

// refuseStrangers refuses requests without the credential that their method needs before their
// body is read. The guard alone would be too late, because the library receives, inflates and
// decodes a message before it calls an interceptor. Unauthenticated clients must not cause that
// work.
func (g *guard) refuseStrangers(next http.Handler) http.Handler {
	answers := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, _ := r.Context().Value(callerKey{}).(peer)
		method, listed := methods[r.URL.Path]
		if who.known || !listed || who.presents(method.Needs) {
			next.ServeHTTP(w, r)
			return
		}
		err := toConnect(r.Context(), g.log, r.URL.Path, g.admit(r.Context(), r.URL.Path))
		if err == nil {
			// The method has NeedsSignature: its handler verifies the signature.
			next.ServeHTTP(w, r)
			return
		}
		if werr := answers.Write(w, r, err); werr != nil {
			// The peer has disconnected.
			return
		}
	})
}
