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

// LimitHeader is where a client, or who configured it, says how long it waits for a
// call: a duration of Go such as "11m", "0" for as long as it takes.
const LimitHeader = "Palyra-Call-Limit"

// visit is what the gateway knows of one HTTP request. The library keeps the context of
// the request that began a session for all that follow, so that what is of each request
// alone travels beside it.
type visit struct {
	caller access.Caller
	// base is the address of the gateway as the client has it: "https://HOST:PORT".
	base string
	// limit is what the client says of its time for a call, nil when it says nothing.
	limit *time.Duration
	// gone is closed when the request ends; why says what ended it, and whenGone has
	// something done then, unless it is stopped.
	gone     <-chan struct{}
	why      func() error
	whenGone func(do func()) (stop func() bool)
	// answered is true once all that the client is still told is the answer.
	answered atomic.Bool
}

func (f *Face) visitOf(r *http.Request) *visit {
	ctx := r.Context()
	v := &visit{
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

// cut is why the gateway itself ended the request, nil when it did not.
func (v *visit) cut() *reason.Error {
	var known *reason.Error
	errors.As(v.why(), &known)
	return known
}

type visitKey struct{}

func withVisit(ctx context.Context, v *visit) context.Context {
	return context.WithValue(ctx, visitKey{}, v)
}

func visitFrom(ctx context.Context) *visit {
	v, _ := ctx.Value(visitKey{}).(*visit)
	return v
}

// extraVisit is under which name a visit travels with the library's token.
const extraVisit = "visit"

// into is the request as the library gets it: with the visit, and without the
// credential, which no handler behind it is to see. The library looks for a token to
// bind sessions to, and gets one that means nothing.
func (v *visit) into(r *http.Request) *http.Request {
	r = r.Clone(withVisit(r.Context(), v))
	r.Header.Set("Authorization", "Bearer identified")
	r.Header.Del("Cookie")
	return r
}

// verified is the token of a request that was identified before. Its UserID keeps
// others than who began a session away from it.
func verified(ctx context.Context, _ string, _ *http.Request) (*auth.TokenInfo, error) {
	v := visitFrom(ctx)
	if v == nil || v.caller.Principal.IsZero() {
		return nil, auth.ErrInvalidToken
	}
	return &auth.TokenInfo{UserID: v.owner(), Extra: map[string]any{extraVisit: v}}, nil
}

// owner says to whom sessions and tasks belong: the credential, and whose it is.
func (v *visit) owner() string { return v.caller.Principal.String() + " " + v.caller.DeviceID }

func visitIn(t *auth.TokenInfo) *visit {
	if t == nil {
		return nil
	}
	v, _ := t.Extra[extraVisit].(*visit)
	return v
}
