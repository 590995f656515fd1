package rpc

import (
	"context"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/access"
	"palyra/internal/policy"
)

// urgent are the methods by which people stop what runs and take back what they
// allowed. Their writes may use all of the reserve when the disk is full.
var urgent = map[string]bool{
	palyrav1connect.ApprovalsServiceDecideApprovalProcedure: true,
	palyrav1connect.ApprovalsServiceCancelApprovalProcedure: true,
	palyrav1connect.ApprovalsServiceRevokeGrantProcedure:    true,
	palyrav1connect.IdentityServiceRevokeDeviceProcedure:    true,
	palyrav1connect.StatusServiceFreezeProcedure:            true,
	palyrav1connect.StatusServiceThawProcedure:              true,
}

// The functions below are the one place where a request gets a precedence. What
// no line names has none: calls of agents, of runs, and of clients that use a
// person's credential.

// precede gives a request that was let in the precedence of its method.
func precede(ctx context.Context, procedure string) context.Context {
	if urgent[procedure] {
		return urgently(ctx)
	}
	return ctx
}

// urgently gives what the caller of ctx does the highest precedence, if it is a
// person.
func urgently(ctx context.Context) context.Context {
	if callerOf(ctx).Principal.Kind != access.KindUser {
		return ctx
	}
	return access.Precede(ctx, access.PrecedenceUrgent)
}

// callPrecedence is that of a call by CallTool. An operator's call from a
// terminal is one of a person who may freeze the gateway, of no run, by a client
// that says that it is the command line. That last word proves nothing, as that
// of a vote does not: it keeps honest clients of other kinds out, and one that
// lies gets a part of the reserve, never that of votes and freezes.
func callPrecedence(ctx context.Context, engine *policy.Engine, run string) access.Precedence {
	who, _ := ctx.Value(callerKey{}).(peer)
	if !who.known || who.caller.Principal.Kind != access.KindUser || who.caller.Surface != access.SurfaceGRPC ||
		who.claims != access.SurfaceCLI || run != "" || !may(engine, who.caller, access.PermGatewayFreeze) {
		return access.PrecedenceNone
	}
	return access.PrecedenceOperator
}
