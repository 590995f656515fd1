package api

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/dualcontrol"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/ops/localsocket"
	"palyra/internal/surface/api/check"
)

// Authenticator maps verified client certificates to callers.
type Authenticator interface {
	Authenticate(chain []*x509.Certificate) (access.Caller, error)
	// AuthenticateExpired returns the caller of a certificate that has expired and may be renewed.
	AuthenticateExpired(chain []*x509.Certificate) (access.Caller, error)
	// AuthenticateHost returns the caller for a peer that the operating system identifies as the
	// operator of this host.
	AuthenticateHost() (access.Caller, error)
	// AuthenticateAgent returns the caller for the hook of an agent. The operating system
	// attributes the hook's process to that operator.
	AuthenticateAgent(name string) (access.Caller, error)
	// NoteUse records that a request came with a certificate, from an address.
	NoteUse(ctx context.Context, chain []*x509.Certificate, from string) error
}

// Limiter takes one request of a class from the buckets of all keys, or from none of them.
type Limiter interface {
	Allow(class limit.Class, keys ...string) (ok bool, retryAfter time.Duration)
	// AllowStranger is Allow for a caller without a credential.
	AllowStranger(class limit.Class, keys ...string) (ok bool, retryAfter time.Duration)
}

// Auditor journals methods as the access table requires.
type Auditor interface {
	// Refused counts a refusal; refusals of one source and reason within a
	// minute become one event.
	Refused(ctx context.Context, source, procedure string, code reason.Code)
	Exported(ctx context.Context, caller access.Caller, procedure string) error
}

// callerOf returns the caller that the guard admitted.
func callerOf(ctx context.Context) access.Caller {
	who, _ := ctx.Value(callerKey{}).(peer)
	return who.caller
}

// CallerOf returns the caller for code between handlers and services.
func CallerOf(ctx context.Context) access.Caller { return callerOf(ctx) }

// Near returns an error unless the request came from a process of this host over a listener of
// agents.
func Near(ctx context.Context) error {
	neighbor, near := localsocket.AgentOf(ctx)
	if !near {
		return reason.Errorf(reason.PermissionDenied, "hooks are accepted only on this host's listener of agents and its socket")
	}
	return neighbor.Refused
}

// addressOf returns the source address of a request, also for a caller without a credential.
func addressOf(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(peer)
	return who.address
}

// sessionOf returns the console session of a request, "" for another client.
func sessionOf(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(peer)
	return who.session
}

// credentialEnd returns when the caller's credential expires.
func credentialEnd(ctx context.Context) time.Time {
	who, _ := ctx.Value(callerKey{}).(peer)
	return who.notAfter
}

// keyOf returns the digest of the key that the caller presented, "" for none.
func keyOf(ctx context.Context) string {
	who, _ := ctx.Value(callerKey{}).(peer)
	return who.key
}

// guard is the interceptor of every method. It checks credential, rate limit, permission and field
// rules, in this order, from the access table.
type guard struct {
	engine  *policy.Engine
	limiter Limiter
	audit   Auditor
	rules   *check.Rules
	log     *slog.Logger
	streams openStreams
	// standing returns an error if a caller may no longer act. It is the pipeline's check.
	standing func(access.Caller) error
}

var _ connect.Interceptor = (*guard)(nil)

// WrapUnary guards a method with one request and one response.
func (g *guard) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		procedure := req.Spec().Procedure
		if req.Spec().IsClient {
			return next(ctx, req)
		}
		if err := g.admit(ctx, procedure); err != nil {
			return nil, toConnect(ctx, g.log, procedure, err)
		}
		if err := g.validate(req.Any()); err != nil {
			return nil, toConnect(ctx, g.log, procedure, err)
		}
		res, err := next(precede(ctx, procedure), req)
		g.noteDenial(ctx, procedure, err)
		return res, toConnect(ctx, g.log, procedure, cause(ctx, err))
	}
}

// noteDenial counts a permission that the service behind a method denied: the right to vote depends
// on the approval, which the table does not contain. It also counts an invalid proof of presence.
func (g *guard) noteDenial(ctx context.Context, procedure string, err error) {
	if code := reason.Of(err); code == reason.PermissionDenied || code == reason.PresenceNotProven {
		g.audit.Refused(ctx, callerOf(ctx).Principal.String(), procedure, code)
	}
}

// cause returns the gateway's own reason for ending a request, or else err.
func cause(ctx context.Context, err error) error {
	if why := cut(ctx); err != nil && why != nil {
		return why
	}
	return err
}

// WrapStreamingClient does nothing: the guard is for handlers.
func (g *guard) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler guards a streaming method; every message received is
// checked.
func (g *guard) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		procedure := conn.Spec().Procedure
		ctx, leave := g.watched(ctx, procedure, methods[procedure].Permission)
		defer leave()
		if err := g.admit(ctx, procedure); err != nil {
			return toConnect(ctx, g.log, procedure, err)
		}
		if conn.Spec().StreamType == connect.StreamTypeServer && procedure != CallToolProcedure {
			leave, err := g.streams.last(callerOf(ctx).Principal)
			if err != nil {
				return toConnect(ctx, g.log, procedure, err)
			}
			defer leave()
		}
		err := next(ctx, &checkedConn{
			StreamingHandlerConn: conn, guard: g, cut: func() error { return cut(ctx) },
		})
		return toConnect(ctx, g.log, procedure, cause(ctx, err))
	}
}

// watched returns the context of a stream, which ends when policy withdraws the permission from
// its caller; leave must be called when the stream has ended.
func (g *guard) watched(ctx context.Context, procedure string, p access.Permission) (watched context.Context, leave func()) {
	who, _ := ctx.Value(callerKey{}).(peer)
	if !who.known {
		return ctx, func() {}
	}
	ctx, end := context.WithCancelCause(ctx)
	leaveList := g.streams.enter(func() {
		// Policy does not contain a member who may not act, so the standing check returns the better
		// reason.
		err := g.standing(who.caller)
		if err == nil {
			err = g.permit(ctx, who, procedure, p)
		}
		if err != nil {
			end(err)
		}
	})
	return ctx, func() {
		leaveList()
		end(nil)
	}
}

type checkedConn struct {
	connect.StreamingHandlerConn
	guard *guard
	// cut returns why the gateway itself ended the stream, or nil.
	cut func() error
}

// Receive reads a message and checks its field rules. For a message that violates the rules,
// the error is a *reason.Error, and the next message can still be read. Any other error is an
// error of the connection.
func (c *checkedConn) Receive(message any) error {
	if err := c.StreamingHandlerConn.Receive(message); err != nil {
		return unreadable(err)
	}
	return c.guard.validate(message)
}

// Send sends a message, unless the gateway itself has ended the stream.
func (c *checkedConn) Send(message any) error {
	if why := c.cut(); why != nil {
		return why
	}
	return c.StreamingHandlerConn.Send(message)
}

// admit returns an error unless the caller may use a method.
func (g *guard) admit(ctx context.Context, procedure string) error {
	who, _ := ctx.Value(callerKey{}).(peer)
	method, ok := methods[procedure]
	if !ok {
		g.log.ErrorContext(ctx, "method without a row in the access table", slog.String("procedure", procedure))
		return g.refuse(ctx, who, procedure, reason.Errorf(reason.PermissionDenied, "the method is not in the access table"))
	}
	if who.known && who.caller.Token != nil && who.caller.Token.Issuer != "" && method.Needs != NeedsNothing {
		// The audience of such a token is the MCP server and the other guarded routes.
		return g.refuse(ctx, who, procedure, reason.Errorf(reason.PermissionDenied, "the API does not accept tokens of other issuers").
			WithRemedy("Use a token of the gateway's own (`palyra tokens create`) or a client certificate."))
	}
	return g.admitPeer(ctx, who, procedure, method)
}

// admitMessage checks a message on an open stream like a separate request: it consumes a
// rate-limit token. The caller needs the permission now, on the surface of the stream.
func (g *guard) admitMessage(ctx context.Context, caller access.Caller, procedure string, method Method) error {
	who, _ := ctx.Value(callerKey{}).(peer)
	who.caller = caller
	return g.admitPeer(ctx, who, procedure, method)
}

func (g *guard) admitPeer(ctx context.Context, who peer, procedure string, method Method) error {
	if method.Needs == NeedsSignature && !who.visits {
		return nil
	}
	if err := g.spend(who, method); err != nil {
		return g.refuse(ctx, who, procedure, err)
	}
	if method.Needs == NeedsNothing && !who.visits {
		return nil
	}
	if !who.presents(method.Needs) {
		return g.refuse(ctx, who, procedure, who.lacks())
	}
	if method.Needs == NeedsHost && who.root {
		return nil // root is not a member, so policy has no permissions for root
	}
	if err := g.permit(ctx, who, procedure, method.Permission); err != nil {
		return err
	}
	if method.Audit == AuditExport {
		return g.audit.Exported(ctx, who.caller, procedure)
	}
	return nil
}

func (g *guard) permit(ctx context.Context, who peer, procedure string, p access.Permission) error {
	if dualcontrol.Ceiling(g.engine.Current(), who.caller, p) {
		return nil
	}
	// The voter's presence is known only after its proof was verified. The desk then checks it for
	// each vote and each approval.
	who.caller.Present = p == access.PermApprovalDecide && who.caller.Paired
	if err := g.engine.Current().Access().Permit(policy.AccessRequest{Caller: who.caller, Permission: p}); err != nil {
		return g.refuse(ctx, who, procedure, err)
	}
	return nil
}

// permitFirst checks the caller's permission again, because a stream can be open for some time
// before its first message.
func (g *guard) permitFirst(ctx context.Context, procedure string) error {
	who, _ := ctx.Value(callerKey{}).(peer)
	return g.permit(ctx, who, procedure, methods[procedure].Permission)
}

// spend takes one request from its buckets.
func (g *guard) spend(who peer, m Method) error {
	allow := g.limiter.Allow
	if !who.authenticated() {
		allow = g.limiter.AllowStranger
	}
	ok, after := allow(m.Limit, who.keys()...)
	if ok {
		return nil
	}
	return reason.Errorf(reason.RateLimited, "too many %s requests; try again in %s", m.Limit, after.Round(time.Millisecond)).
		WithField(retryAfterField, after.String())
}

// unreadable adds the reason to an error of the connection: the message was malformed, or larger
// than MaxMessage.
func unreadable(err error) error {
	var wire *connect.Error
	if !errors.As(err, &wire) || len(wire.Details()) > 0 {
		return err
	}
	switch wire.Code() {
	case connect.CodeInvalidArgument:
		return connectError(reason.Errorf(reason.InvalidInput, "%s", wire.Message()))
	case connect.CodeResourceExhausted:
		return connectError(reason.Errorf(reason.InputTooLarge, "%s", wire.Message()))
	}
	return err
}

func (g *guard) refuse(ctx context.Context, who peer, procedure string, err error) error {
	source := who.address
	if who.known {
		source = who.caller.Principal.String()
	}
	g.audit.Refused(ctx, source, procedure, reason.Of(err))
	return err
}

// lacks returns the error of a peer without the credential that a method needs.
func (p *peer) lacks() error {
	if p.known && p.visits {
		return reason.Errorf(reason.PermissionDenied, "console sessions may not use this method").
			WithRemedy("Use the command line, with the certificate of a device.")
	}
	if p.known {
		return reason.Errorf(reason.PermissionDenied, "certifying a key requires the certificate of a device").
			WithRemedy("Run it with a credential bundle, without --socket.")
	}
	return unauthenticated(p.err)
}

func unauthenticated(cause error) error {
	if cause != nil && reason.Of(cause) != reason.Internal {
		return cause
	}
	return reason.Errorf(reason.Unauthenticated, "a client certificate or a token is required")
}

func (g *guard) validate(message any) error {
	m, ok := message.(proto.Message)
	if !ok {
		return nil
	}
	if why, marked := unreadableMark(m); marked {
		return reason.Errorf(reason.InvalidInput, "the request cannot be read: %s", why)
	}
	if err := g.rules.Check(m); err != nil {
		return reason.Errorf(reason.InvalidInput, "%s", err.Error())
	}
	return nil
}

// CallToolProcedure is the procedure with which refusals of tool calls are recorded.
const CallToolProcedure = palyrav1connect.GatewayServiceCallToolProcedure

// CompleteLoginProcedure is the procedure with which refusals of logins are recorded.
const CompleteLoginProcedure = palyrav1connect.LoginServiceCompleteLoginProcedure
