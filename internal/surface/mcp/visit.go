package mcp

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/auth"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// LimitHeader is the client's timeout for a call, as a Go duration such as "11m"; "0" means none.
const LimitHeader = "Palyra-Call-Limit"

// httpRequest is the state of one HTTP request. The library keeps the context of the first
// request of a session for all later requests. The state of each request is therefore passed
// separately.
type httpRequest struct {
	caller access.Caller
	// base is the client's base URL of the gateway: "https://HOST:PORT".
	base string
	// limit is the client's timeout for a call, nil if not specified.
	limit *time.Duration
	// gone is closed when the request ends. why returns the cause. whenGone calls a function at
	// the end of the request, unless stop was called before.
	gone     <-chan struct{}
	why      func() error
	whenGone func(do func()) (stop func() bool)
	// answered is true once only the response remains to be sent.
	answered atomic.Bool
}

func (f *Server) httpRequestOf(r *http.Request) *httpRequest {
	ctx := r.Context()
	v := &httpRequest{
		caller: f.Caller(ctx), gone: ctx.Done(), why: func() error { return context.Cause(ctx) },
		whenGone: func(do func()) func() bool { return context.AfterFunc(ctx, do) },
	}
	v.caller.Surface = access.SurfaceMCP
	switch {
	case v.caller.Transport == access.TransportSocket:
		v.base = "https://" + f.Address()
	case r.TLS != nil:
		v.base = "https://" + r.Host
	default:
		v.base = "http://" + r.Host
	}
	if limit, err := time.ParseDuration(r.Header.Get(LimitHeader)); err == nil && limit >= 0 {
		v.limit = &limit
	}
	return v
}

// cut returns why the gateway itself ended the request, or nil.
func (v *httpRequest) cut() *reason.Error {
	var known *reason.Error
	errors.As(v.why(), &known)
	return known
}

type visitKey struct{}

func withVisit(ctx context.Context, v *httpRequest) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

func visitFrom(ctx context.Context) *httpRequest {
	v, _ := ctx.Value(visitKey{}).(*httpRequest)
	return v
}

// extraVisit is the key of the httpRequest in the library's token.
const extraVisit = "visit"

// into returns the request for the library. The request has the httpRequest in its context, and
// no credential: later handlers must not receive it. The library binds sessions to a token, and
// receives a placeholder.
func (v *httpRequest) into(r *http.Request) *http.Request {
	r = r.Clone(withVisit(r.Context(), v))
	r.Header.Set("Authorization", "Bearer identified")
	r.Header.Del("Cookie")
	return r
}

// verified returns the token of an authenticated request. Its UserID restricts a session to its
// creator.
func verified(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
	v := visitFrom(ctx)
	if v == nil || v.caller.Principal.IsZero() {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: v.owner(), Extra: map[string]any{extraVisit: v}}, nil
}

// owner identifies the owner of sessions and tasks: the principal and its credential.
func (v *httpRequest) owner() string { return v.caller.Principal.String() + " " + v.caller.DeviceID }

func visitIn(t *auth.TokenInfo) *httpRequest {
	if t == nil {
		return nil
	}
	v, _ := t.Extra[extraVisit].(*httpRequest)
	return v
}
