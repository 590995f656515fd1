// Package gatewaytest is the gateway in which rooms are tested that stand above
// the stages of a call: a real store, the policy engine, the desk, the router
// and a notary, the pipeline through them, and tools that do what a test says.
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

// Config says what a gateway is made of.
type Config struct {
	DB     *sqlite.DB
	Engine *policy.Engine
	Notary call.Notary
	Tools  []tool.Runnable
	// Approvals keeps what the desk is asked, nil for DB.
	Approvals approval.Store
	Limits    approval.Limits
	// LiveDevice says which devices may act, nil for all.
	LiveDevice func(string) bool
	// Standing says which callers may not go on, nil for none.
	Standing func(access.Caller) error
	// MaxCallsPerRun and MaxCallsPerSession are bounds that no test reaches when
	// they are 0; SessionIdle is an hour then.
	MaxCallsPerRun, MaxCallsPerSession int
	SessionIdle                        time.Duration
	Log                                *slog.Logger
	// Between, unless nil, may stand something before each stage.
	Between func(*Gateway, *call.Config)
}

// Gateway is the stages of a call and the pipeline through them.
type Gateway struct {
	Config Config
	Desk   *approval.Desk
	Router *dispatch.Router
	*call.Pipeline
	// StopDesk ends the desk.
	StopDesk func()
}

// many is a bound that no test reaches.
const many = 1 << 30

// New builds the stages over a store, as a start of the daemon does. The desk
// runs until the test ends.
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
	must.Do(t, g.Desk.MarkRunsGone(t.Context()))
	g.Connect(t)
	return g
}

// Route makes the router anew.
func (g *Gateway) Route(t testing.TB) {
	t.Helper()
	g.Router = must.Get(dispatch.New(dispatch.Config{
		Tools: g.Config.Tools, Timeout: time.Minute, Snapshot: func() string { return g.Config.Engine.Current().SnapshotDigest() },
	}))(t)
}

// Connect makes the pipeline anew.
func (g *Gateway) Connect(t testing.TB) {
	t.Helper()
	c := call.Config{
		Evaluator: g.Config.Engine, Approver: g.Desk, Dispatcher: g.Router, Notary: g.Config.Notary, Ledger: sqlite.NewCalls(g.Config.DB),
		MaxCallsPerRun: g.Config.MaxCallsPerRun, MaxCallsPerSession: g.Config.MaxCallsPerSession, SessionIdle: g.Config.SessionIdle,
		LiveDevice: g.Config.LiveDevice, Standing: g.Config.Standing, Log: g.Config.Log,
	}
	if g.Config.Between != nil {
		g.Config.Between(g, &c)
	}
	g.Pipeline = must.Get(call.New(c))(t)
}

// Notary signs under an authority of its own that is valid at any time.
func Notary(t testing.TB) *attest.Notary {
	t.Helper()
	key, chain := catest.Lasting(t).Signer(t, "palyra.local", "/notary/1")
	return must.Get(attest.NewNotary(attest.NotaryConfig{Signer: key, Chain: chain, Gateway: "palyra.local"}))(t)
}

// Agent is the agent of policytest's sets, at the API.
var Agent = access.Caller{
	Principal: policytest.Agent, OnBehalfOf: policytest.Alice, Roles: []access.Role{access.RoleAgent},
	DeviceID: "01JNA3Q0G0DEV1CE0000000001", Surface: access.SurfaceGRPC, Paired: true,
}

// Person is a user at a terminal.
func Person(p access.Principal, roles ...access.Role) access.Caller {
	return access.Caller{
		Principal: p, OnBehalfOf: p, Roles: roles, DeviceID: "01JNA3Q0G0DEV1CE00000000" + p.Name[:2],
		Surface: access.SurfaceCLI, Paired: true,
	}
}
