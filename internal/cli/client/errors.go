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

// remedyKey is the metadata key of the next step.
const remedyKey = "remedy"

// Explain makes an error of the program's own kind of any error.
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

// fromGateway reads the reason that the gateway gave. An error without one
// gets the reason that fits its status.
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

// Failure is an error as a message of the gateway tells it; one without words
// gets those of its reason.
func Failure(code, message, remedy string) *reason.Error {
	e := &reason.Error{Code: reason.Code(code), Message: message, Remedy: remedy}
	if message == "" {
		e.Message = reason.Lookup(e.Code).Sentence
	}
	return e
}

// ErrorInfo is the reason that the gateway gave with an error, nil when it gave
// none.
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
	// The gateway did not say that: this end made it of a reply that broke off.
	// A connection that was reset looks like a call that was cancelled.
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
			WithRemedy("Look at `palyra status` and the daemon's log.")
	}
	return out
}

// notReachable says why there is no connection and what would make one.
func notReachable(cause string) *reason.Error {
	e := reason.Errorf(reason.NotConnected, "no connection to the gateway: %s", cause)
	switch {
	case strings.Contains(cause, "certificate required"), strings.Contains(cause, "bad certificate"),
		strings.Contains(cause, "expired certificate"), strings.Contains(cause, "revoked certificate"),
		strings.Contains(cause, "unknown certificate"):
		return e.WithRemedy("The gateway refuses the certificate in the credential bundle: its device was revoked, or its member disabled or removed. " +
			"Who may see it finds out with `palyra members list` and `palyra devices list`; `palyrad operator bundle NAME` on the gateway's host makes another bundle.")
	case strings.Contains(cause, "dial unix") && strings.Contains(cause, "permission denied"):
		return e.WithRemedy("The socket is for the user to whom palyrad's state directory belongs; others use a credential bundle (`palyrad operator add NAME --role ROLE`, and --credentials DIR).")
	case strings.Contains(cause, "x509:"), strings.Contains(cause, "tls:"):
		return e.WithRemedy("The server at this address is not the gateway of the credential bundle; check --address and --credentials.")
	}
	return e.WithRemedy("Start the gateway with `palyrad`, or name another with --address HOST:PORT.")
}

// IsCancelled reports whether an error says that this end gave up.
func IsCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || connect.CodeOf(err) == connect.CodeCanceled
}

// suggestion keeps cobra's did-you-mean, and otherwise points to the help.
func suggestion(err error, path string) string {
	_, found, ok := strings.Cut(err.Error(), "Did you mean this?")
	if ok {
		return "Did you mean " + strings.Join(strings.Fields(found), " or ") + "?"
	}
	return fmt.Sprintf("See `%s --help`.", path)
}

// AsRemote is an error as the gateway's, of no known code when it is not one.
func AsRemote(err error) *connect.Error {
	var remote *connect.Error
	if errors.As(err, &remote) {
		return remote
	}
	return connect.NewError(connect.CodeUnknown, err)
}
