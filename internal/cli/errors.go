package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"palyra/internal/reason"
)

// errorDomain is the domain of the gateway's google.rpc.ErrorInfo.
const errorDomain = "palyra.dev"

// remedyKey is the metadata key of the next step.
const remedyKey = "remedy"

// exitError ends the command with a code; everything was said already.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit code %d", e.code) }

// usage is an error in how the command was called.
func usage(format string, args ...any) *reason.Error {
	return reason.Errorf(reason.InvalidInput, format, args...)
}

// usageMark tells an error that cobra found in the arguments from others.
type usageMark struct{ error }

// report prints an error with its next step and returns the exit code.
func (a *app) report(ctx context.Context, cmd *cobra.Command, err error) int {
	if err == nil {
		return reason.ExitOK
	}
	var exit exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	if ctx.Err() != nil && isCancelled(err) {
		a.say("interrupted")
		return reason.ExitFailure
	}
	e := explain(cmd, err)
	a.printError(e)
	return reason.Lookup(e.Code).Exit
}

func (a *app) printError(e *reason.Error) {
	style := a.errStyle()
	// The reason belongs to the first line: further ones are findings and help.
	message, rest, more := strings.Cut(visibleText(e.Message), "\n")
	fmt.Fprintf(a.err, "%s %s [%s]\n", style.red("error:"), message, visibleLine(string(e.Code)))
	if more {
		fmt.Fprintln(a.err, rest)
	}
	for _, name := range sortedKeys(e.Fields) {
		if e.Fields[name] == "" || name == "version" && a.format() == formatTable {
			continue // nothing that helps a person
		}
		fmt.Fprintf(a.err, "  %s: %s\n", visibleLine(name), visibleLine(e.Fields[name]))
	}
	if next := e.NextStep(); next != "" {
		fmt.Fprintf(a.err, "%s %s\n", style.bold("next:"), visibleText(next))
	}
}

// explain makes an error of the program's own kind of any error.
func explain(cmd *cobra.Command, err error) *reason.Error {
	var own *reason.Error
	if errors.As(err, &own) {
		return own
	}
	var remote *connect.Error
	if errors.As(err, &remote) {
		return fromGateway(remote)
	}
	if isUsage(cmd, err) {
		path := "palyra"
		if cmd != nil {
			path = cmd.CommandPath()
		}
		return usage("%s", firstLine(err.Error())).WithRemedy("%s", suggestion(err, path))
	}
	return reason.Errorf(reason.Internal, "%s", err.Error()).WithRemedy("Check the path or value that the error names.")
}

// fromGateway reads the reason that the gateway gave. An error without one
// gets the reason that fits its status.
func fromGateway(err *connect.Error) *reason.Error {
	info := errorInfo(err)
	if info == nil {
		return fromStatus(err)
	}
	out := &reason.Error{Code: reason.Code(info.GetReason()), Message: err.Message()}
	for k, v := range info.GetMetadata() {
		if k == remedyKey {
			out.Remedy = v
			continue
		}
		out = out.WithField(k, v)
	}
	if out.Message == "" {
		out.Message = reason.Lookup(out.Code).Sentence
	}
	return out
}

func errorInfo(err *connect.Error) *errdetails.ErrorInfo {
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
		return e.WithRemedy("The gateway refuses the certificate in the credential bundle; " +
			"get a new bundle with `palyrad operator add NAME --role ROLE`, or on the gateway's host use the local one.")
	case strings.Contains(cause, "x509:"), strings.Contains(cause, "tls:"):
		return e.WithRemedy("The server at this address is not the gateway of the credential bundle; check --address and --credentials.")
	}
	return e.WithRemedy("Start the gateway with `palyrad`, or name another with --address HOST:PORT.")
}

func isCancelled(err error) bool {
	return errors.Is(err, context.Canceled) || connect.CodeOf(err) == connect.CodeCanceled
}

// isUsage reports whether cobra refused the arguments: then no command ran.
func isUsage(cmd *cobra.Command, err error) bool {
	var mark usageMark
	return errors.As(err, &mark) || strings.HasPrefix(err.Error(), "unknown command ") ||
		strings.HasPrefix(err.Error(), "required flag(s)") || strings.HasPrefix(err.Error(), "if any flags in the group")
}

// suggestion keeps cobra's did-you-mean, and otherwise points to the help.
func suggestion(err error, path string) string {
	_, found, ok := strings.Cut(err.Error(), "Did you mean this?")
	if ok {
		return "Did you mean " + strings.Join(strings.Fields(found), " or ") + "?"
	}
	return fmt.Sprintf("See `%s --help`.", path)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
