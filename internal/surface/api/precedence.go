package api

import (
	"context"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
)

// urgent are the methods by which users stop activity and revoke permissions. Their writes may use
// all of the reserve when the disk is full.
var urgent = map[string]bool{
	palyrav1connect.ApprovalsServiceDecideApprovalProcedure: true,
	palyrav1connect.ApprovalsServiceCancelApprovalProcedure: true,
	palyrav1connect.ApprovalsServiceRevokeGrantProcedure:    true,
	palyrav1connect.GatewayServiceCancelCallProcedure:       true,
	palyrav1connect.IdentityServiceRevokeDeviceProcedure:    true,
	palyrav1connect.AccessServiceDisableMemberProcedure:     true,
	palyrav1connect.AccessServiceRemoveMemberProcedure:      true,
	palyrav1connect.StatusServiceFreezeProcedure:            true,
	palyrav1connect.StatusServiceThawProcedure:              true,
}

// Only the functions below give requests a precedence. All other requests have none, including
// the requests of agents, of runs, and of programs that use a user's credential.

// precede gives an admitted request the precedence of its method.
func precede(ctx context.Context, procedure string) context.Context {
	if urgent[procedure] {
		return urgently(ctx)
	}
	return ctx
}

// urgently gives the request of ctx the highest precedence, if its caller is a user.
func urgently(ctx context.Context) context.Context {
	if callerOf(ctx).Principal.Kind != access.KindUser {
		return ctx
	}
	return access.Precede(ctx, access.PrecedenceUrgent)
}

// callPrecedence returns the precedence of a call by CallTool. It is PrecedenceOperator for a
// user who may freeze the gateway, outside of a run, if the client identifies as the command
// line. Otherwise it is PrecedenceNone. The client's identification is not verified: a false
// identification can use a part of the reserve, but not the part for votes and freezes.
func callPrecedence(ctx context.Context, engine *policy.Engine, run string) access.Precedence {
	who, _ := ctx.Value(callerKey{}).(peer)
	if !who.known || who.caller.Principal.Kind != access.KindUser || who.caller.Surface != access.SurfaceGRPC ||
		who.claims != access.SurfaceCLI || run != "" || !may(engine, who.caller, access.PermGatewayFreeze) {
		return access.PrecedenceNone
	}
	return access.PrecedenceOperator
}
