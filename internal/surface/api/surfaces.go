package api

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"

	"connectrpc.com/connect"

	"palyra/internal/core/dnsname"
	"palyra/internal/core/reason"
	"palyra/internal/identity/login/resource"
)

type countKey struct{}

// CountAgain counts a guarded request once more against its limits: one of several that
// it holds, or one of NeedsSignature without a valid signature. Its error is
// reason.RateLimited.
func CountAgain(ctx context.Context) error {
	if count, ok := ctx.Value(countKey{}).(func() error); ok {
		return count()
	}
	return reason.Errorf(reason.Internal, "the request is of no guarded route")
}

// surfaces serves the guarded routes: what other protocols than the API's own bring
// (MCP, hooks of agents), by the same rows, limits and permissions as its methods.
type surfaces struct {
	guard *guard
	mux   *http.ServeMux
	// hosts reports whether a name is one of the gateway's.
	hosts func(name string) bool
	log   *slog.Logger
}

// newSurfaces guards handlers by their patterns. One that has no row is denied to all.
func newSurfaces(g *guard, handlers map[string]http.Handler, hosts func(string) bool, log *slog.Logger) *surfaces {
	s := &surfaces{guard: g, mux: http.NewServeMux(), hosts: hosts, log: log}
	for pattern, handler := range handlers {
		s.mux.Handle(pattern, s.guarded(pattern, handler))
	}
	return s
}

// beside serves the guarded routes, and everything else by next.
func (s *surfaces) beside(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, method := methods[r.URL.Path]; !method {
			if _, pattern := s.mux.Handler(r); pattern != "" {
				s.mux.ServeHTTP(w, r)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// guarded lets a request through to the handler of a route, or says why not.
func (s *surfaces) guarded(pattern string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if row := routes[pattern]; row.Guard != nil {
			ctx, leave := s.guard.watched(r.Context(), pattern, row.Guard.Permission)
			defer leave()
			r = r.WithContext(ctx)
		}
		if err := s.admit(pattern, r); err != nil {
			s.refuse(w, r, pattern, err)
			return
		}
		if pattern == MCPRoute && r.Method == http.MethodGet { // a stream for what the gateway says by itself
			leave, err := s.guard.streams.last(callerOf(r.Context()).Principal)
			if err != nil {
				s.refuse(w, r, pattern, err)
				return
			}
			defer leave()
		}
		// What let the caller in ends here: no handler can pass it on.
		r.Header.Del("Authorization")
		who, _ := r.Context().Value(callerKey{}).(peer)
		r = r.WithContext(context.WithValue(r.Context(), countKey{}, func() error { return s.guard.spend(who, *routes[pattern].Guard) }))
		r.Body = http.MaxBytesReader(w, r.Body, MaxMessage)
		next.ServeHTTP(w, r)
	})
}

func (s *surfaces) admit(pattern string, r *http.Request) error {
	who, _ := r.Context().Value(callerKey{}).(peer)
	row, ok := routes[pattern]
	if !ok || row.Guard == nil {
		s.log.ErrorContext(r.Context(), "route without a guarded row in the access table", slog.String("procedure", pattern))
		return s.guard.refuse(r.Context(), who, pattern, reason.Errorf(reason.PermissionDenied, "the route is not in the access table"))
	}
	if err := s.sameSite(&who, r); err != nil {
		return s.guard.refuse(r.Context(), who, pattern, err)
	}
	return s.guard.admitPeer(r.Context(), who, pattern, *row.Guard)
}

// sameSite refuses what a page of another site had a browser send. A name that leads
// here is no sign of whose page it is (DNS rebinding), so that Host has to be a name of
// this gateway; and a request that has an Origin has to come from there.
func (s *surfaces) sameSite(who *peer, r *http.Request) error {
	if who.local {
		return nil
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		name = host
	}
	if !dnsname.Loopback(name) && !s.hosts(name) {
		return reason.Errorf(reason.PermissionDenied, "%q is no name of this gateway", name).
			WithRemedy("Use the address that palyrad prints at its start, or add the name to listen.server_names.")
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	if from, err := url.Parse(origins[0]); len(origins) > 1 || err != nil || from.Host != r.Host {
		return reason.Errorf(reason.PermissionDenied, "the request comes from a page of another site").
			WithRemedy("Call the gateway from a program; pages in a browser have no access to it.")
	}
	return nil
}

// refuse answers as the API's methods do. Who showed no credential is told which kind is
// taken (RFC 6750, section 3).
func (s *surfaces) refuse(w http.ResponseWriter, r *http.Request, pattern string, err error) {
	WriteError(w, r, s.log, pattern, err)
}

// Origin is where the client of a guarded route reaches the gateway, as the beginning of
// URLs. The Host of the request was checked to be a name of the gateway.
func Origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// challenge says what a request without a credential that counts has to show (RFC 6750,
// section 3), and where it is described who gives it (RFC 9728, section 5.1).
func challenge(r *http.Request) string {
	parts := []string{`Bearer realm="palyra"`}
	if who, _ := r.Context().Value(callerKey{}).(peer); who.offered {
		parts = append(parts, `resource_metadata="`+Origin(r)+resource.MetadataPath+resource.MCPPath+`"`)
	}
	if r.Header.Get("Authorization") != "" {
		parts = append(parts, `error="invalid_token"`)
	}
	return strings.Join(parts, ", ")
}

// WriteError answers a request of plain HTTP with an error, in the shape of the API's
// methods (Connect's unary errors).
func WriteError(w http.ResponseWriter, r *http.Request, log *slog.Logger, route string, err error) {
	shown := toConnect(r.Context(), log, route, err)
	var answer *connect.Error
	if errors.As(shown, &answer) && answer.Code() == connect.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", challenge(r))
	}
	if werr := connect.NewErrorWriter().Write(w, plainly(r), shown); werr != nil {
		log.DebugContext(r.Context(), "the peer left before its answer", slog.String("error", werr.Error()))
	}
}

// plainly is the request as one of Connect's unary protocol, whatever it is: that is
// the form in which other protocols are told of errors.
func plainly(r *http.Request) *http.Request {
	plain := r.Clone(r.Context())
	plain.Method = http.MethodPost
	plain.Header.Set("Content-Type", "application/json")
	plain.Header.Set("Connect-Protocol-Version", "1")
	return plain
}
