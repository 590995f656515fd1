package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

func TestEveryReasonHasACode(t *testing.T) {
	t.Parallel()
	for _, row := range reason.Table {
		code, ok := codes[row.Code]
		if !ok || code < connect.CodeCanceled || code > connect.CodeUnauthenticated {
			t.Errorf("%s has no API code", row.Code)
		}
	}
	if len(codes) != len(reason.Table) {
		t.Errorf("%d codes for %d reasons", len(codes), len(reason.Table))
	}
}

func info(t *testing.T, e *connect.Error) *errdetails.ErrorInfo {
	t.Helper()
	for _, d := range e.Details() {
		if value, err := d.Value(); err == nil {
			if found, ok := value.(*errdetails.ErrorInfo); ok {
				return found
			}
		}
	}
	t.Fatalf("%v carries no ErrorInfo", e)
	return nil
}

func translate(t *testing.T, err error) (*connect.Error, string) {
	t.Helper()
	var log bytes.Buffer
	var out *connect.Error
	if !errors.As(toConnect(t.Context(), slog.New(slog.NewTextHandler(&log, nil)), "/p", err), &out) {
		t.Fatalf("%v became no API error", err)
	}
	return out, log.String()
}

func TestErrorMapping(t *testing.T) {
	t.Parallel()
	refused := reason.Errorf(reason.UnknownTool, "tool %q not found", "x").WithRemedy("Take another.").WithField("near", "y")
	for name, c := range map[string]struct {
		err     error
		code    connect.Code
		reason  reason.Code
		message string
	}{
		"a reason":             {refused, connect.CodeNotFound, reason.UnknownTool, `tool "x" not found`},
		"a reason, wrapped":    {fmt.Errorf("calling: %w", refused), connect.CodeNotFound, reason.UnknownTool, `tool "x" not found`},
		"two, the first wins":  {errors.Join(refused, reason.Errorf(reason.Cancelled, "left")), connect.CodeNotFound, reason.UnknownTool, `tool "x" not found`},
		"a reason over a wire": {reason.Errorf(reason.Cancelled, "left: %w", connect.NewError(connect.CodeUnknown, errors.New("eof"))), connect.CodeCanceled, reason.Cancelled, "left: unknown: eof"},
		"cancelled":            {fmt.Errorf("x: %w", context.Canceled), connect.CodeCanceled, reason.Cancelled, "the caller disconnected"},
		"too late":             {context.DeadlineExceeded, connect.CodeDeadlineExceeded, reason.TimedOut, "the caller's deadline passed"},
		"unknown reason":       {&reason.Error{Code: "NEW", Message: "new"}, connect.CodeInternal, "NEW", "new"},
	} {
		e, log := translate(t, c.err)
		if e.Code() != c.code || info(t, e).GetReason() != string(c.reason) || e.Message() != c.message {
			t.Errorf("%s: %v with %v", name, e, info(t, e))
		}
		if log != "" {
			t.Errorf("%s: logged %s", name, log)
		}
	}
	e, _ := translate(t, refused)
	if m := info(t, e).GetMetadata(); m["remedy"] != "Take another." || m["near"] != "y" {
		t.Errorf("metadata %v", m)
	}
	if err := toConnect(t.Context(), slog.Default(), "/p", nil); err != nil {
		t.Errorf("no error became %v", err)
	}
}

// An error without a reason does not reveal its cause, which is logged.
func TestInternalErrorsShowNothing(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{
		"plain":    errors.New("opening /var/lib/secret: no such file"),
		"wrapped":  fmt.Errorf("reading: %w", errors.New("/var/lib/secret")),
		"declared": reason.Errorf(reason.Internal, "at /var/lib/secret"),
	} {
		e, log := translate(t, err)
		if e.Code() != connect.CodeInternal || info(t, e).GetReason() != string(reason.Internal) {
			t.Errorf("%s: %v", name, e)
		}
		if strings.Contains(e.Error()+fmt.Sprint(info(t, e)), "/var/lib") {
			t.Errorf("%s: the client sees %v", name, e)
		}
		if !strings.Contains(log, "/var/lib/secret") || !strings.Contains(log, "procedure=/p") {
			t.Errorf("%s: logged %q", name, log)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	e, _ := translate(t, reason.Errorf(reason.RateLimited, "slow down").WithField(retryAfterField, (1500*time.Millisecond).String()))
	if got := e.Meta().Get("Retry-After"); got != "2" {
		t.Errorf("Retry-After: %q, want 2", got)
	}
	for _, d := range e.Details() {
		if value, err := d.Value(); err == nil {
			if retry, ok := value.(*errdetails.RetryInfo); ok && retry.GetRetryDelay().AsDuration() == 1500*time.Millisecond {
				return
			}
		}
	}
	t.Error("no RetryInfo with the delay")
}

type countingAudit struct{ refused []string }

func (a *countingAudit) Refused(_ context.Context, source, procedure string, code reason.Code) {
	a.refused = append(a.refused, source+" "+procedure+" "+string(code))
}

func (a *countingAudit) Exported(context.Context, access.Caller, string) error { return nil }

// A method without a row in the table is denied, also to owners.
func TestMethodWithoutARowIsDenied(t *testing.T) {
	t.Parallel()
	one := limit.Rates{Each: limit.Limit{PerSecond: 1, Burst: 9}, Global: limit.Limit{PerSecond: 1, Burst: 9}}
	limiter := must.Get(limit.NewLimiter(map[limit.Class]limit.Rates{LimitRead: one}))(t)
	audit := &countingAudit{}
	g := &guard{
		engine: policytest.Engine(t, policytest.Options{}), limiter: limiter, audit: audit, log: slog.New(slog.DiscardHandler),
	}
	ctx := context.WithValue(t.Context(), callerKey{}, peer{
		known: true, address: "127.0.0.1",
		caller: access.Caller{Principal: policytest.Alice, OnBehalfOf: policytest.Alice, Roles: []access.Role{access.RoleOwner}},
	})
	const unlisted = "/palyra.v1.GatewayService/AddedYesterday"
	if err := g.admit(ctx, unlisted); reason.Of(err) != reason.PermissionDenied {
		t.Errorf("got %v", err)
	}
	if want := "user:alice " + unlisted + " PERMISSION_DENIED"; len(audit.refused) != 1 || audit.refused[0] != want {
		t.Errorf("audited %v", audit.refused)
	}
	if err := g.admit(ctx, "/palyra.v1.StatusService/GetStatus"); err != nil {
		t.Errorf("the control: %v", err)
	}
	if err := g.admit(t.Context(), "/palyra.v1.StatusService/GetStatus"); reason.Of(err) != reason.Unauthenticated {
		t.Errorf("a context without a peer: %v", err)
	}
}
