package hook

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"palyra/internal/core/access"
	"palyra/internal/core/reason"
)

// Pattern is the route of hooks.
const Pattern = "POST /hooks/v1/{agent}"

// The headers of the route. LimitHeader is the agent's timeout for its hook in seconds.
// DecisionHeader is the action for the hook's program, independent of the agent's JSON: allow,
// deny, or none if the message was a report.
const (
	LimitHeader    = "Palyra-Hook-Limit"
	DecisionHeader = "Palyra-Decision"
)

// Route is the HTTP handler of hooks.
type Route struct {
	Service *Service
	// Caller returns the authenticated caller of a request.
	Caller func(context.Context) access.Caller
	// Near returns an error unless a request came from a process of this host that may use the
	// hooks.
	Near func(context.Context) error
	// Fail writes an error in the surface's own format, with a status other than 2xx.
	Fail func(w http.ResponseWriter, r *http.Request, err error)
}

// ServeHTTP answers one message of a hook.
func (h Route) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	caller := h.Caller(ctx)
	a, limit, err := h.admit(ctx, caller, r)
	if err != nil {
		h.Fail(w, r, err)
		return
	}
	m, err := message(a, r.Body)
	if err != nil {
		// A malformed message cannot be answered in the format of its event.
		h.Service.Log.WarnContext(ctx, "reading a hook's message failed", slog.String("agent", a.Name), slog.String("error", err.Error()))
		h.Fail(w, r, err)
		return
	}
	h.answer(w, a, m, h.Service.Handle(ctx, caller, a, m, limit))
}

// admit refuses callers that are not agents on this host, and requests that are not hooks.
func (h Route) admit(ctx context.Context, caller access.Caller, r *http.Request) (*Agent, time.Duration, error) {
	if err := h.Near(ctx); err != nil {
		return nil, 0, err
	}
	if caller.Principal.Kind != access.KindAgent {
		return nil, 0, reason.Errorf(reason.PermissionDenied, "calling a hook: %s is not an agent", caller.Principal).
			WithRemedy("Run `palyra hook install` to create the credential of the hook.")
	}
	a := find(r.PathValue("agent"))
	if a == nil {
		return nil, 0, reason.Errorf(reason.NotFound, "the agent %q is not supported", r.PathValue("agent")).
			WithRemedy("Use claude-code, codex or generic.")
	}
	limit := time.Duration(0)
	if text := r.Header.Get(LimitHeader); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, 0, reason.Errorf(reason.InvalidInput, "%s is not a number of seconds", LimitHeader)
		}
		limit = time.Duration(seconds) * time.Second
	}
	return a, limit, nil
}

// message parses a hook's message.
func message(a *Agent, body io.Reader) (*Message, error) {
	text, err := io.ReadAll(io.LimitReader(body, MaxBody+1))
	if tooMuch := (*http.MaxBytesError)(nil); errors.As(err, &tooMuch) || len(text) > MaxBody {
		return nil, reason.Errorf(reason.InputTooLarge, "the hook's message is larger than %d bytes", min(len(text), MaxBody))
	}
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "reading the hook's message: %w", err)
	}
	return a.read(text)
}

// answer writes the bytes that the hook has to print.
func (h Route) answer(w http.ResponseWriter, a *Agent, m *Message, answer Answer) {
	decision := "none"
	if m.Kind == Before {
		decision = map[bool]string{true: "allow", false: "deny"}[answer.Allowed]
	}
	w.Header().Set(DecisionHeader, decision)
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(a.answer(m, answer)); err != nil {
		h.Service.Log.Debug("the hook disconnected before the response was written", slog.String("error", err.Error()))
	}
}
