package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// errorDomain is the domain of the gateway's google.api.ErrorInfo.
const errorDomain = "palyra.dev"

// remedyKey is the metadata key of the remedy.
const remedyKey = "remedy"

// Explain converts any error to a reason.Error.
func Explain(cmd *cobra.Command, err error) *reason.Error {
	var own *reason.Error
	if errors.As(err, &own) {
		return own
	}
	var remote *connect.Error
	if errors.As(err, &remote) {
		return fromGateway(remote)
	}
	if command.IsUsage(err) {
		path := "palyra"
		if cmd != nil {
			path = cmd.CommandPath()
		}
		return command.Usage("%s", printer.FirstLine(err.Error())).WithRemedy("%s", suggestion(err, path))
	}
	return reason.Errorf(reason.Internal, "%w", err).WithRemedy("Check the path or value that the error names.")
}

// fromGateway returns the gateway's reason. An error without one gets the reason that matches its
// status.
func fromGateway(err *connect.Error) *reason.Error {
	info := ErrorInfo(err)
	if info == nil {
		return fromStatus(err)
	}
	out := Failure(info.GetReason(), err.Message(), "")
	for k, v := range info.GetMetadata() {
		if k == remedyKey {
			out.Remedy = v
			continue
		}
		out = out.WithField(k, v)
	}
	return out
}

// Failure returns an error from a message of the gateway; missing texts are filled in from the
// reason.
func Failure(code, message, remedy string) *reason.Error {
	e := &reason.Error{Code: reason.Code(code), Message: message, Remedy: remedy}
	if message == "" {
		e.Message = reason.Lookup(e.Code).Sentence
	}
	return e
}

// ErrorInfo returns the gateway's reason of an error, nil for none.
func ErrorInfo(err *connect.Error) *errdetails.ErrorInfo {
	for _, d := range err.Details() {
		value, decodeErr := d.Value()
		if decodeErr != nil {
			continue
		}
		if info, ok := value.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return info
		}
	}
	return nil
}

func fromStatus(err *connect.Error) *reason.Error {
	code, ok := map[connect.Code]reason.Code{
		connect.CodeUnavailable:        reason.NotConnected,
		connect.CodeUnauthenticated:    reason.Unauthenticated,
		connect.CodePermissionDenied:   reason.PermissionDenied,
		connect.CodeInvalidArgument:    reason.InvalidInput,
		connect.CodeNotFound:           reason.NotFound,
		connect.CodeAlreadyExists:      reason.AlreadyExists,
		connect.CodeResourceExhausted:  reason.RateLimited,
		connect.CodeFailedPrecondition: reason.ApprovalConflict,
		connect.CodeAborted:            reason.ApprovalConflict,
		connect.CodeCanceled:           reason.Cancelled,
	}[err.Code()]
	message := err.Message()
	// The client library created this error from an incomplete response. A reset connection looks
	// like a cancelled call.
	reset := err.Code() == connect.CodeCanceled && !errors.Is(err, context.Canceled)
	if !connect.IsWireError(err) && strings.Contains(message, "GOAWAY") {
		return reason.Errorf(reason.ShuttingDown, "the gateway stopped before it answered")
	}
	if !connect.IsWireError(err) && (!ok || reset) {
		return notReachable(message)
	}
	if !ok {
		code = reason.Internal
	}
	out := reason.Errorf(code, "%s", message)
	switch err.Code() {
	case connect.CodeUnavailable:
		return notReachable(message)
	case connect.CodeUnimplemented:
		return out.WithRemedy("The gateway is older than this command; update palyrad.")
	case connect.CodeDeadlineExceeded:
		return reason.Errorf(reason.NotConnected, "the gateway did not answer in time").
			WithRemedy("Check `palyra status` and the daemon's log.")
	}
	return out
}

// notReachable returns the error of a failed connection with a remedy.
func notReachable(cause string) *reason.Error {
	e := reason.Errorf(reason.NotConnected, "no connection to the gateway: %s", cause)
	switch {
	case strings.Contains(cause, "certificate required"), strings.Contains(cause, "bad certificate"),
		strings.Contains(cause, "expired certificate"), strings.Contains(cause, "revoked certificate"),
		strings.Contains(cause, "unknown certificate"):
		return e.WithRemedy("The gateway refuses the certificate in the credential bundle: its device was revoked, or its member disabled or removed. " +
			"Check with `palyra members list` and `palyra devices list`; `palyrad operator bundle NAME` on the gateway's host creates another bundle.")
	case strings.Contains(cause, "dial unix") && strings.Contains(cause, "permission denied"):
		return e.WithRemedy("The socket is for the owner of palyrad's state directory; others need a credential bundle (`palyrad operator add NAME --role ROLE`, and --credentials DIR).")
	case strings.Contains(cause, "x509:"), strings.Contains(cause, "tls:"):
		return e.WithRemedy("The server at this address is not the gateway of the credential bundle; check --address and --credentials.")
	}
	return e.WithRemedy("Start the gateway with `palyrad`, or specify another with --address HOST:PORT.")
}

// IsCancelled reports whether this side cancelled the operation.
func IsCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || connect.CodeOf(err) == connect.CodeCanceled
}

// suggestion keeps cobra's did-you-mean, and otherwise refers to the help.
func suggestion(err error, path string) string {
	_, found, ok := strings.Cut(err.Error(), "Did you mean this?")
	if ok {
		return "Did you mean " + strings.Join(strings.Fields(found), " or ") + "?"
	}
	return fmt.Sprintf("See `%s --help`.", path)
}

// AsRemote returns an error as the gateway's error, with an unknown code if it is not one.
func AsRemote(err error) *connect.Error {
	var remote *connect.Error
	if errors.As(err, &remote) {
		return remote
	}
	return connect.NewError(connect.CodeUnknown, err)
}
