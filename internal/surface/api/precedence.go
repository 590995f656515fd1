package api

import (
	"context"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
)

// urgent are the methods by which people stop what runs and take back what they
// allowed. Their writes may use all of the reserve when the disk is full.
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

// The functions below alone give requests a precedence. All others have none: those
// of agents, of runs, and of programs that use a person's credential.

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

// callPrecedence is the precedence of a call by CallTool: PrecedenceOperator for a
// person who may freeze the gateway, outside of a run, with a client that says that
// it is the command line, else none. What a client says of itself proves nothing;
// one that lies can use a part of the reserve, but not the part for votes and
// freezes.
func callPrecedence(ctx context.Context, engine *policy.Engine, run string) access.Precedence {
	who, _ := ctx.Value(callerKey{}).(peer)
	if !who.known || who.caller.Principal.Kind != access.KindUser || who.caller.Surface != access.SurfaceGRPC ||
		who.claims != access.SurfaceCLI || run != "" || !may(engine, who.caller, access.PermGatewayFreeze) {
		return access.PrecedenceNone
	}
	return access.PrecedenceOperator
}
