// Package gatewaytest provides a gateway for tests of components above the stages of a call. It
// has a real store, the policy engine, the desk, the router and a notary, the pipeline through
// them, and configurable test tools.
package gatewaytest

import (
	"log/slog"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/approval/approvaltest"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/identity/ca/catest"
	"palyra/internal/store/sqlite"
)

// Config configures a gateway.
type Config struct {
	DB     *sqlite.DB
	Engine *policy.Engine
	Notary call.Notary
	Tools  []tool.Runnable
	// Approvals stores the desk's approvals; nil for DB.
	Approvals approval.Store
	Limits    approval.Limits
	// LiveDevice reports which devices may act; nil for all.
	LiveDevice func(string) bool
	// Standing returns why a caller must stop; nil for no check.
	Standing func(access.Caller) error
	// MaxCallsPerRun and MaxCallsPerSession limit calls. If they are 0, the limits are so high that
	// no test reaches them, and SessionIdle is an hour.
	MaxCallsPerRun, MaxCallsPerSession int
	SessionIdle                        time.Duration
	Log                                *slog.Logger
	// Between, unless nil, may wrap each stage.
	Between func(*Gateway, *call.Config)
}

// Gateway consists of the stages of a call, and the pipeline that connects them.
type Gateway struct {
	Config Config
	Desk   *approval.Desk
	Router *dispatch.Router
	*call.Pipeline
	// StopDesk ends the desk.
	StopDesk func()
}

// many is a limit that no test reaches.
const many = 1 << 30

// New creates the stages over a store, as the daemon does at its start. The desk runs until the
// test ends.
func New(t testing.TB, c Config) *Gateway {
	t.Helper()
	if c.Approvals == nil {
		c.Approvals = sqlite.NewApprovals(c.DB)
	}
	if c.LiveDevice == nil {
		c.LiveDevice = func(string) bool { return true }
	}
	if c.Standing == nil {
		c.Standing = func(access.Caller) error { return nil }
	}
	if c.MaxCallsPerRun == 0 {
		c.MaxCallsPerRun = many
	}
	if c.MaxCallsPerSession == 0 {
		c.MaxCallsPerSession = many
	}
	if c.SessionIdle == 0 {
		c.SessionIdle = time.Hour
	}
	g := &Gateway{Config: c}
	g.Desk = approvaltest.Open(t, c.Approvals, call.Judge{Evaluator: c.Engine, LiveDevice: c.LiveDevice}, c.Limits)
	g.StopDesk = approvaltest.Start(t, g.Desk)
	g.Route(t)
	must.Do(t, g.Desk.Records.MarkRunsGone(t.Context()))
	g.Connect(t)
	return g
}

// Route recreates the router.
func (g *Gateway) Route(t testing.TB) {
	t.Helper()
	g.Router = must.Get(dispatch.New(dispatch.Config{
		Tools: g.Config.Tools, Timeout: time.Minute, Snapshot: func() string { return g.Config.Engine.Current().SnapshotDigest() },
	}))(t)
}

// Connect recreates the pipeline.
func (g *Gateway) Connect(t testing.TB) {
	t.Helper()
	c := call.Config{
		Evaluator: g.Config.Engine, Approver: g.Desk.Requests, Grants: g.Desk.Grants, Editor: g.Desk.Edits, Dispatcher: g.Router, Notary: g.Config.Notary, Ledger: sqlite.NewCalls(g.Config.DB),
		MaxCallsPerRun: g.Config.MaxCallsPerRun, MaxCallsPerSession: g.Config.MaxCallsPerSession, SessionIdle: g.Config.SessionIdle,
		LiveDevice: g.Config.LiveDevice, Standing: g.Config.Standing, Log: g.Config.Log,
	}
	if g.Config.Between != nil {
		g.Config.Between(g, &c)
	}
	g.Pipeline = must.Get(call.New(c))(t)
}

// Notary returns a notary with its own certificate authority, which is valid at any time.
func Notary(t testing.TB) *attest.Notary {
	t.Helper()
	key, chain := catest.Lasting(t).Signer(t, "palyra.local", "/notary/1")
	return must.Get(attest.NewNotary(attest.NotaryConfig{Signer: key, Chain: chain, Gateway: "palyra.local"}))(t)
}

// Agent is the agent in the policy sets of policytest, calling through the API.
var Agent = access.Caller{
	Principal: policytest.Agent, OnBehalfOf: policytest.Alice, Roles: []access.Role{access.RoleAgent},
	DeviceID: "01JNA3Q0G0DEV1CE0000000001", Surface: access.SurfaceGRPC, Paired: true,
}

// Person returns a user at a terminal.
func Person(p access.Principal, roles ...access.Role) access.Caller {
	return access.Caller{
		Principal: p, OnBehalfOf: p, Roles: roles, DeviceID: "01JNA3Q0G0DEV1CE00000000" + p.Name[:2],
		Surface: access.SurfaceCLI, Paired: true,
	}
}
