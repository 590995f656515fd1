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

// The headers of the route. LimitHeader says in seconds how long the agent waits for
// its hook; DecisionHeader answers what the hook's program has to do, also for one that
// cannot read its agent's JSON: allow, deny, or none where nothing was asked.
const (
	LimitHeader    = "Palyra-Hook-Limit"
	DecisionHeader = "Palyra-Decision"
)

// Route is what the handler of hooks needs of the surface that it stands on.
type Route struct {
	Service *Service
	// Caller is whose credential came with a request.
	Caller func(context.Context) access.Caller
	// Near says why a request did not come from a process of this host that may use the
	// hooks, nil for one that did.
	Near func(context.Context) error
	// Fail answers with an error of the surface's own form, whose status is none of 2xx.
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
		// What cannot be read is no question that could be answered in its form.
		h.Service.Log.WarnContext(ctx, "a hook's message cannot be read", slog.String("agent", a.Name), slog.String("error", err.Error()))
		h.Fail(w, r, err)
		return
	}
	h.answer(w, a, m, h.Service.Hear(ctx, caller, a, m, limit))
}

// admit refuses whoever is no agent of this host, and what is no hook.
func (h Route) admit(ctx context.Context, caller access.Caller, r *http.Request) (*Agent, time.Duration, error) {
	if err := h.Near(ctx); err != nil {
		return nil, 0, err
	}
	if caller.Principal.Kind != access.KindAgent {
		return nil, 0, reason.Errorf(reason.PermissionDenied, "hooks are for agents, and %s is none", caller.Principal).
			WithRemedy("Have `palyra hook install` make the credential of the hook.")
	}
	a := find(r.PathValue("agent"))
	if a == nil {
		return nil, 0, reason.Errorf(reason.NotFound, "there are no hooks of an agent %q", r.PathValue("agent")).
			WithRemedy("Use claude-code, codex or generic.")
	}
	limit := time.Duration(0)
	if text := r.Header.Get(LimitHeader); text != "" {
		seconds, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return nil, 0, reason.Errorf(reason.InvalidInput, "%s is no number of seconds", LimitHeader)
		}
		limit = time.Duration(seconds) * time.Second
	}
	return a, limit, nil
}

// message reads what the hook sent.
func message(a *Agent, body io.Reader) (*Message, error) {
	text, err := io.ReadAll(io.LimitReader(body, MaxBody+1))
	if tooMuch := (*http.MaxBytesError)(nil); errors.As(err, &tooMuch) || len(text) > MaxBody {
		return nil, reason.Errorf(reason.InputTooLarge, "the hook sent more than %d bytes", min(len(text), MaxBody))
	}
	if err != nil {
		return nil, reason.Errorf(reason.InvalidInput, "reading the hook's message: %w", err)
	}
	return a.read(text)
}

// answer writes what the hook is to print.
func (h Route) answer(w http.ResponseWriter, a *Agent, m *Message, answer Answer) {
	decision := "none"
	if m.Kind == Before {
		decision = map[bool]string{true: "allow", false: "deny"}[answer.Allowed]
	}
	w.Header().Set(DecisionHeader, decision)
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(a.answer(m, answer)); err != nil {
		h.Service.Log.Debug("the hook left before its answer", slog.String("error", err.Error()))
	}
}
