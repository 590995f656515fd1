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

// CountAgain counts a guarded request once more against its limits: for one of several items in
// the request, or for a NeedsSignature request without a valid signature. Its error is
// reason.RateLimited.
func CountAgain(ctx context.Context) error {
	if count, ok := ctx.Value(countKey{}).(func() error); ok {
		return count()
	}
	return reason.Errorf(reason.Internal, "the request does not belong to a guarded route")
}

// surfaces serves the guarded routes, which carry other protocols than the API (MCP, hooks of
// agents). The same access rows, limits and permissions apply as to the methods.
type surfaces struct {
	guard *guard
	mux   *http.ServeMux
	// hosts reports whether a name belongs to the gateway.
	hosts func(name string) bool
	log   *slog.Logger
}

// newSurfaces guards handlers by their patterns. A pattern without a row is denied to all callers.
func newSurfaces(g *guard, handlers map[string]http.Handler, hosts func(string) bool, log *slog.Logger) *surfaces {
	s := &surfaces{guard: g, mux: http.NewServeMux(), hosts: hosts, log: log}
	for pattern, handler := range handlers {
		s.mux.Handle(pattern, s.guarded(pattern, handler))
	}
	return s
}

// beside serves the guarded routes, and passes everything else to next.
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

// guarded authorizes a request and passes it to the handler of a route, or writes the refusal.
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
		if pattern == MCPRoute && r.Method == http.MethodGet { // the stream of server-initiated messages
			leave, err := s.guard.streams.last(callerOf(r.Context()).Principal)
			if err != nil {
				s.refuse(w, r, pattern, err)
				return
			}
			defer leave()
		}
		// The credential is removed here, so that no handler can pass it on.
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

// sameSite refuses requests that a page of another site made a browser send. A name that resolves
// to this address proves nothing (DNS rebinding). Host must therefore be a name of this gateway,
// and Origin, if present, must match it.
func (s *surfaces) sameSite(who *peer, r *http.Request) error {
	if who.local {
		return nil
	}
	name := r.Host
	if host, _, err := net.SplitHostPort(r.Host); err == nil {
		name = host
	}
	if !dnsname.Loopback(name) && !s.hosts(name) {
		return reason.Errorf(reason.PermissionDenied, "the host name %q is not configured on this gateway", name).
			WithRemedy("Use the address that palyrad prints at its start, or add the name to listen.server_names.")
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return nil
	}
	if from, err := url.Parse(origins[0]); len(origins) > 1 || err != nil || from.Host != r.Host {
		return reason.Errorf(reason.PermissionDenied, "the request has the Origin of another site").
			WithRemedy("Call the gateway from a program; web pages cannot access it.")
	}
	return nil
}

// refuse writes an error as the API's methods do. A request without a credential receives the
// accepted scheme (RFC 6750, section 3).
func (s *surfaces) refuse(w http.ResponseWriter, r *http.Request, pattern string, err error) {
	WriteError(w, r, s.log, pattern, err)
}

// Origin returns the scheme and authority by which the client of a guarded route reaches the
// gateway. The guard of the route has verified that Host is a name of the gateway.
func Origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// challenge returns the WWW-Authenticate challenge for a request without a valid credential (RFC
// 6750, section 3), with the location of the resource metadata (RFC 9728, section 5.1).
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

// WriteError writes an error to a plain HTTP request in the format of the API's methods (Connect's
// unary errors).
func WriteError(w http.ResponseWriter, r *http.Request, log *slog.Logger, route string, err error) {
	mapped := toConnect(r.Context(), log, route, err)
	var answer *connect.Error
	if errors.As(mapped, &answer) && answer.Code() == connect.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", challenge(r))
	}
	if werr := connect.NewErrorWriter().Write(w, plainly(r), mapped); werr != nil {
		log.DebugContext(r.Context(), "the client disconnected before the response was written", slog.String("error", werr.Error()))
	}
}

// plainly returns the request as a Connect unary request. Clients of other protocols receive
// errors in the format of such requests.
func plainly(r *http.Request) *http.Request {
	plain := r.Clone(r.Context())
	plain.Method = http.MethodPost
	plain.Header.Set("Content-Type", "application/json")
	plain.Header.Set("Connect-Protocol-Version", "1")
	return plain
}
