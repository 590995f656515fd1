package api

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"palyra/internal/core/reason"
)

// ErrorDomain is the domain of the ErrorInfo that every error carries.
const ErrorDomain = "palyra.dev"

// codes maps reasons to API codes; a test checks that it is complete.
var codes = map[reason.Code]connect.Code{
	reason.InvalidInput:        connect.CodeInvalidArgument,
	reason.DuplicateKey:        connect.CodeInvalidArgument,
	reason.NumberNotExact:      connect.CodeInvalidArgument,
	reason.InvalidUTF8:         connect.CodeInvalidArgument,
	reason.InputTooLarge:       connect.CodeInvalidArgument,
	reason.InputTooDeep:        connect.CodeInvalidArgument,
	reason.UnknownTool:         connect.CodeNotFound,
	reason.UnknownWorkspace:    connect.CodeNotFound,
	reason.WorkspaceScope:      connect.CodePermissionDenied,
	reason.ProtectedPath:       connect.CodePermissionDenied,
	reason.PatchConflict:       connect.CodeFailedPrecondition,
	reason.CommitRefused:       connect.CodePermissionDenied,
	reason.CommitConflict:      connect.CodeFailedPrecondition,
	reason.FileNotFound:        connect.CodeNotFound,
	reason.HostInvalid:         connect.CodeInvalidArgument,
	reason.EgressDenied:        connect.CodePermissionDenied,
	reason.FetchFailed:         connect.CodeUnavailable,
	reason.ExecutableDenied:    connect.CodePermissionDenied,
	reason.InlineCode:          connect.CodePermissionDenied,
	reason.SandboxDisabled:     connect.CodeFailedPrecondition,
	reason.SandboxUnavailable:  connect.CodeFailedPrecondition,
	reason.PlatformUnknown:     connect.CodeUnimplemented,
	reason.SpawnFailed:         connect.CodeFailedPrecondition,
	reason.TimedOut:            connect.CodeDeadlineExceeded,
	reason.QuotaExceeded:       connect.CodeResourceExhausted,
	reason.ToolFailed:          connect.CodeAborted,
	reason.UpstreamUnavailable: connect.CodeUnavailable,
	reason.UpstreamLogin:       connect.CodeFailedPrecondition,
	reason.Cancelled:           connect.CodeCanceled,

	reason.PolicyDenied:       connect.CodePermissionDenied,
	reason.PolicyError:        connect.CodePermissionDenied,
	reason.PolicyInvalid:      connect.CodeFailedPrecondition,
	reason.ToolSuspended:      connect.CodeFailedPrecondition,
	reason.BudgetExceeded:     connect.CodeResourceExhausted,
	reason.FactsChanged:       connect.CodeAborted,
	reason.ModelBudget:        connect.CodeResourceExhausted,
	reason.TimeBudget:         connect.CodeResourceExhausted,
	reason.ModelUnavailable:   connect.CodeUnavailable,
	reason.ModelRejected:      connect.CodeFailedPrecondition,
	reason.ModelInvalid:       connect.CodeAborted,
	reason.UnknownModel:       connect.CodeNotFound,
	reason.RunEnded:           connect.CodeFailedPrecondition,
	reason.RunInterrupted:     connect.CodeAborted,
	reason.RunAbandoned:       connect.CodeAborted,
	reason.GatewayFrozen:      connect.CodeFailedPrecondition,
	reason.ShuttingDown:       connect.CodeUnavailable,
	reason.ResultExpired:      connect.CodeNotFound,
	reason.PermitRefused:      connect.CodePermissionDenied,
	reason.ExecutedElsewhere:  connect.CodeFailedPrecondition,
	reason.Unreported:         connect.CodeUnknown,
	reason.RanOther:           connect.CodeAborted,
	reason.Ungoverned:         connect.CodeAborted,
	reason.JournalUnavailable: connect.CodeUnavailable,
	reason.AttestationFailed:  connect.CodeInternal,
	reason.OutcomeUnknown:     connect.CodeAborted,

	reason.ApprovalRequired:     connect.CodeFailedPrecondition,
	reason.RequestReasonNeeded:  connect.CodeFailedPrecondition,
	reason.ApprovalDenied:       connect.CodePermissionDenied,
	reason.ApprovalExpired:      connect.CodeDeadlineExceeded,
	reason.ApprovalCancelled:    connect.CodeCanceled,
	reason.ApprovalRevoked:      connect.CodePermissionDenied,
	reason.ApprovalConflict:     connect.CodeAborted,
	reason.ApprovalLimit:        connect.CodeResourceExhausted,
	reason.ApprovalUnattainable: connect.CodePermissionDenied,
	reason.ChangePending:        connect.CodeFailedPrecondition,
	reason.StillWaiting:         connect.CodeDeadlineExceeded,
	reason.BindingMismatch:      connect.CodeFailedPrecondition,
	reason.DigestMismatch:       connect.CodeFailedPrecondition,
	reason.PresenceNotProven:    connect.CodePermissionDenied,

	reason.Unauthenticated:     connect.CodeUnauthenticated,
	reason.CertificateExpired:  connect.CodeUnauthenticated,
	reason.KeyReplaced:         connect.CodeUnauthenticated,
	reason.LoginRefused:        connect.CodePermissionDenied,
	reason.LoginUnavailable:    connect.CodeUnavailable,
	reason.PermissionDenied:    connect.CodePermissionDenied,
	reason.RateLimited:         connect.CodeResourceExhausted,
	reason.NotFound:            connect.CodeNotFound,
	reason.AlreadyExists:       connect.CodeAlreadyExists,
	reason.IdempotencyMismatch: connect.CodeAlreadyExists,
	reason.PairingFailed:       connect.CodeUnauthenticated,
	reason.SecretExpired:       connect.CodeFailedPrecondition,
	reason.SecretEnded:         connect.CodeFailedPrecondition,
	reason.LossNotAccepted:     connect.CodeFailedPrecondition,
	reason.LastOwner:           connect.CodeFailedPrecondition,
	reason.VerificationFailed:  connect.CodeDataLoss,
	reason.OriginUnproven:      connect.CodeFailedPrecondition,
	reason.VaultLocked:         connect.CodeUnavailable,
	reason.VaultKeyMissing:     connect.CodeFailedPrecondition,
	reason.SecretUnreadable:    connect.CodeDataLoss,
	reason.ConfigInvalid:       connect.CodeFailedPrecondition,
	reason.NotConnected:        connect.CodeUnavailable,
	reason.Internal:            connect.CodeInternal,
}

// toConnect converts an error to the error that the client receives.
func toConnect(ctx context.Context, log *slog.Logger, procedure string, err error) error {
	if err == nil {
		return nil
	}
	var known *reason.Error
	var ready *connect.Error
	if !errors.As(err, &known) && errors.As(err, &ready) {
		return ready
	}
	return connectError(visibleError(ctx, log, procedure, err))
}

// visibleError returns the part of an error that a client may see. An error without a reason is
// internal: it is logged here and not returned.
func visibleError(ctx context.Context, log *slog.Logger, procedure string, err error) *reason.Error {
	var known *reason.Error
	switch {
	case errors.As(err, &known) && known.Code != reason.Internal:
		return known
	case known == nil && errors.Is(err, context.Canceled):
		return reason.Errorf(reason.Cancelled, "the caller disconnected")
	case known == nil && errors.Is(err, context.DeadlineExceeded):
		return reason.Errorf(reason.TimedOut, "the caller's deadline passed")
	}
	log.ErrorContext(ctx, "internal error", slog.String("procedure", procedure), slog.String("error", err.Error()))
	return reason.Fault(err)
}

func connectError(known *reason.Error) *connect.Error {
	code, ok := codes[known.Code]
	if !ok {
		code = connect.CodeInternal
	}
	out := connect.NewError(code, errors.New(known.Message))
	metadata := map[string]string{"remedy": known.NextStep()}
	for name, value := range known.Fields {
		metadata[name] = value
	}
	addDetail(out, &errdetails.ErrorInfo{Reason: string(known.Code), Domain: ErrorDomain, Metadata: metadata})
	if after, limited := retryAfter(known); limited {
		addDetail(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
		out.Meta().Set("Retry-After", retryAfterHeader(after))
	}
	return out
}

// retryAfterField is the field of a RATE_LIMITED error with the time to wait, as a Go duration.
const retryAfterField = "retry_after"

// retryAfter returns how long the caller of a limited request must wait: the value of the limit, or
// a second if it is unknown.
func retryAfter(known *reason.Error) (after time.Duration, limited bool) {
	if after, err := time.ParseDuration(known.Fields[retryAfterField]); err == nil {
		return after, true
	}
	return time.Second, known.Code == reason.RateLimited
}

// addDetail attaches a message that this package created and that always encodes.
func addDetail(e *connect.Error, message proto.Message) {
	if detail, err := connect.NewErrorDetail(message); err == nil {
		e.AddDetail(detail)
	}
}

// retryAfterHeader writes whole seconds, rounded up (RFC 9110).
func retryAfterHeader(d time.Duration) string {
	return strconv.Itoa(int(math.Ceil(d.Seconds())))
}
