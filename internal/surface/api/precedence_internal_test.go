package api

import (
	"context"
	"testing"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
)

func as(t *testing.T, p access.Principal, surface, claims access.Surface) context.Context {
	t.Helper()
	return context.WithValue(t.Context(), callerKey{}, peer{known: true, claims: claims, caller: access.Caller{
		Principal: p, OnBehalfOf: policytest.Alice, Surface: surface, Paired: true,
	}})
}

// TestPrecedencePerCaller: only requests of operators have a raised precedence.
func TestPrecedencePerCaller(t *testing.T) {
	t.Parallel()
	engine := policytest.Engine(t, policytest.Options{Members: []access.Member{
		{Principal: access.User("dev"), Roles: []access.Role{access.RoleDeveloper}},
	}})
	alice, cli := policytest.Alice, access.SurfaceCLI
	for name, c := range map[string]struct {
		ctx  context.Context
		run  string
		want access.Precedence
	}{
		"an operator at a terminal":    {as(t, alice, access.SurfaceGRPC, cli), "", access.PrecedenceOperator},
		"another client of theirs":     {as(t, alice, access.SurfaceGRPC, ""), "", access.PrecedenceNone},
		"a call of a run":              {as(t, alice, access.SurfaceGRPC, cli), "r1", access.PrecedenceNone},
		"a call of a run's stream":     {as(t, alice, access.SurfaceStream, cli), "", access.PrecedenceNone},
		"a call from inside a client":  {as(t, alice, access.SurfaceInClient, cli), "", access.PrecedenceNone},
		"an agent that says it is one": {as(t, policytest.Agent, access.SurfaceGRPC, cli), "", access.PrecedenceNone},
		"a person who may not freeze":  {as(t, access.User("dev"), access.SurfaceGRPC, cli), "", access.PrecedenceNone},
		"nobody":                       {t.Context(), "", access.PrecedenceNone},
	} {
		if got := callPrecedence(c.ctx, engine, c.run); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

func TestMethodsOfPrecedence(t *testing.T) {
	t.Parallel()
	alice := as(t, policytest.Alice, access.SurfaceGRPC, "")
	bot := as(t, policytest.Agent, access.SurfaceGRPC, "")
	for procedure := range methods {
		want := access.PrecedenceNone
		if urgent[procedure] {
			want = access.PrecedenceUrgent
		}
		if got := access.PrecedenceOf(precede(alice, procedure)); got != want {
			t.Errorf("%s: %d, want %d", procedure, got, want)
		}
		if access.PrecedenceOf(precede(bot, procedure)) != access.PrecedenceNone {
			t.Errorf("%s of an agent has a precedence", procedure)
		}
	}
	for procedure := range urgent {
		if _, ok := methods[procedure]; !ok {
			t.Errorf("%s is no method", procedure)
		}
	}
	if urgent[palyrav1connect.GatewayServiceCallToolProcedure] || urgent[palyrav1connect.GatewayServiceRunStreamProcedure] {
		t.Error("calls are urgent")
	}
}
