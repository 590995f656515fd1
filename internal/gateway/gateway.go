package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/limit"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/core/version"
	"palyra/internal/exec/sandbox"
	"palyra/internal/identity"
	"palyra/internal/ops/changesets"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/presenceproof"
	mcpserver "palyra/internal/surface/mcp"
	"palyra/internal/surface/notify"
	"palyra/internal/surface/notify/targets"
	"palyra/internal/surface/resume"
)

// control implements the API's operations on the gateway as a whole.
type control struct{ g *gateway }

var _ api.Gateway = control{}

// Problems returns the reasons why the gateway is not ready. It reads only memory, since any client
// may call it at any rate; mend tests the disk.
func (c control) Problems(context.Context) []string {
	if c.g.stopping.Load() {
		return append(problemsOf(c.g.stores.disk), "the gateway is stopping")
	}
	return problemsOf(c.g.stores.disk)
}

func problemsOf(store disk) []string {
	if err := store.Healthy(); err != nil {
		return []string{"the journal cannot be written: " + err.Error()}
	}
	return nil
}

// The interval between write attempts while the store cannot be written. It doubles from the
// shortest to the longest.
const (
	shortestMend = time.Second
	longestMend  = 30 * time.Second
)

// mend makes the gateway ready again once a write succeeds. New calls test the disk as well.
func mend(ctx context.Context, log *slog.Logger, store disk) error {
	wait := shortestMend
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if store.Healthy() == nil {
			wait = shortestMend
			continue
		}
		if err := store.Probe(); err != nil {
			wait = min(2*wait, longestMend)
			log.WarnContext(ctx, "the journal cannot be written", slog.String("error", err.Error()), slog.Duration("next_try", wait))
			continue
		}
		wait = shortestMend
		log.InfoContext(ctx, "the journal can be written again")
	}
}

// Status returns the state of the gateway for operators.
func (c control) Status(ctx context.Context) (api.Status, error) {
	g := c.g
	set := g.engine.Current()
	s := api.Status{
		Version: version.Get().Version, StartedAt: g.startedAt, GatewayID: g.journal.Gateway(),
		PolicyVersion: set.Version(), SnapshotDigest: set.SnapshotDigest(), PolicyDirectory: g.policies.Loader.Directory(),
		JournalSize: g.journal.Head().Seq, Freeze: freezeState(ctx, g), CallsInFlight: g.router.InFlight(),
		Workspaces: g.cfg.Workspaces, Sandbox: asPrograms(g.cfg.ProcessRunner, g.isolation.watch.Status()), Degraded: g.isolation.degraded(g.cfg.ProcessRunner), Prepared: prepared(g), Notices: notices(g),
		ActiveRuns: g.runs.Roster.Active(), Models: g.models.Status, Keys: keyPlaces(g.authority, g.cfg), Vault: g.kek.Status(ctx),
	}
	checkpoint, err := g.journal.Checkpoints.Latest(ctx)
	if err != nil {
		return s, fmt.Errorf("reading the last checkpoint: %w", err)
	}
	s.LastCheckpointSize = checkpoint.Size
	counts := g.desk.Counts()
	s.PendingApprovals, s.LiveGrants = counts.Pending, counts.Grants
	return s, nil
}

// notices returns warnings about the settings.
func notices(g *gateway) []string {
	var list []string
	if g.cfg.AllowSensitiveTools {
		list = append(list, "allow_sensitive_tools is true: sensitive tools run without asking anybody")
	}
	if openNetwork(g.cfg.ProcessRunner) {
		list = append(list, "programs have the network of the machine (process_runner.egress_enforcement_mode = \"unrestricted\"): calls of them are denied unless a policy permits context.egress.mode == \"none\"")
	}
	if deciders := slices.DeleteFunc(g.registry.List(), func(m access.Member) bool { return !m.Decides() }); len(deciders) == 1 {
		list = append(list, deciders[0].Principal.String()+" alone answers approvals, including approvals of their own calls; add a second person with `palyrad operator add`")
	}
	if len(g.cfg.Workspaces) == 0 {
		list = append(list, "no workspace is declared: file tools and process.run have nothing to work in; add [[workspaces]] to palyra.toml")
	}
	if text := g.isolation.Lowered(); text != "" {
		list = append(list, text)
	}
	_, held, size := g.stores.reserve()
	if text := reserveNotice(held, size); text != "" {
		list = append(list, text)
	}
	if text := limitedNotice(g.limiter.Refused(), g.limiter.Locked(), g.turns.Waiting(), time.Now()); text != "" {
		list = append(list, text)
	}
	list = append(list, g.hooks.Counts().Notices()...)
	for _, m := range g.models.Status {
		if m.Problem != nil {
			list = append(list, "model "+m.Name+" is unavailable: "+m.Problem.Message+"; "+m.Problem.NextStep())
		}
	}
	if err := g.stores.keepsResults(); err != nil {
		list = append(list, "what calls return cannot be kept, so that they are refused with "+string(reason.Of(err))+" before they run; what was kept cannot be read")
	}
	// Policies are not loaded before the start.
	if set := g.engine.Current(); set != nil {
		if problem, remedy := set.View().NobodyPresent(append(identity.Proving(g.identity.Directory.Devices()), g.passkeys.Proving()...)); problem != "" {
			list = append(list, problem+". "+remedy)
		}
	}
	list = append(list, g.changing.Notices()...)
	list = append(list, g.policies.Loader.Notices()...)
	list = append(list, g.upstreams.Notices()...)
	list = append(list, g.installed.Notices()...)
	list = append(list, g.skills.registry.Notices()...)
	list = append(list, g.notify.Notices()...)
	if names := g.policies.Pins.Suspended(); len(names) > 0 {
		list = append(list, "suspended, because the policies do not fit their definition: "+strings.Join(names, ", ")+
			"; see `palyra policy check`, correct the policy, then `palyra policy reload`")
	}
	return list
}

// limitedNotice describes the limits in effect; "" if there are none. It names the classes with
// a refused request within the last minute, the number of locked-out keys, and the number of
// calls waiting for a sandbox.
func limitedNotice(refused map[limit.Class]limit.Refusals, locked map[limit.Class]int, waiting int, now time.Time) string {
	var parts, classes []string
	for class, n := range refused {
		if n.Count > 0 && now.Sub(n.Last) < time.Minute {
			classes = append(classes, string(class))
		}
	}
	if slices.Sort(classes); len(classes) > 0 {
		parts = append(parts, "requests are refused by rate limits ("+strings.Join(classes, ", ")+")")
	}
	for _, class := range slices.Sorted(maps.Keys(locked)) {
		if n := locked[class]; n > 0 {
			parts = append(parts, fmt.Sprintf("locked out after failures (%s): %d", class, n))
		}
	}
	if waiting > 0 {
		parts = append(parts, fmt.Sprintf("calls that wait for a program to end: %d", waiting))
	}
	return strings.Join(parts, "; ")
}

// prepared returns the number of sandboxes built in advance.
func prepared(g *gateway) int {
	if _, ok := g.isolation.Backend.(sandbox.Pooled); ok && g.isolation.watch.Status().Available {
		return g.cfg.ProcessRunner.Prepared
	}
	return 0
}

// Freeze refuses new calls and cancels the running ones, and then makes the freeze durable. In this
// order, a freeze that cannot be recorded still stops the calls.
func (c control) Freeze(ctx context.Context, by access.Caller, why string) (api.FreezeState, int, error) {
	stopped := c.g.router.Freeze()
	c.g.isolation.Invalidate()
	c.g.upstreams.Pool.EndIdle()
	c.g.log.InfoContext(ctx, "the gateway is frozen: nothing runs until `palyra thaw`",
		slog.String("principal", by.Principal.String()), slog.Int("calls", stopped), slog.String("note", why))
	if err := c.g.desk.Freezer.Freeze(ctx, by, why); err != nil {
		return api.FreezeState{}, stopped, fmt.Errorf("calls are stopped, but the freeze was not recorded: %w", err)
	}
	return freezeState(ctx, c.g), stopped, nil
}

// Thaw permits calls again once the thaw is durable.
func (c control) Thaw(ctx context.Context, by access.Caller) (api.FreezeState, error) {
	if err := c.g.desk.Freezer.Thaw(ctx, by); err != nil {
		return api.FreezeState{}, err
	}
	c.g.isolation.Invalidate()
	c.g.router.Thaw()
	c.g.log.InfoContext(ctx, "the gateway is thawed: calls run again", slog.String("principal", by.Principal.String()))
	return freezeState(ctx, c.g), nil
}

func freezeState(ctx context.Context, g *gateway) api.FreezeState {
	state, frozen := g.desk.Freezer.Frozen(ctx)
	if !frozen {
		return api.FreezeState{Frozen: g.router.Frozen()}
	}
	return freezeOf(state)
}

func freezeOf(s approval.FreezeState) api.FreezeState {
	return api.FreezeState{Frozen: true, Reason: s.Reason, By: s.By.String(), At: s.At}
}

// openCalls creates the service with which calls outlive their clients, for every surface whose
// clients time out before people answer.
func openCalls(_ context.Context, g *gateway, _ Options) error {
	g.holding = make(chan struct{})
	g.calls = resume.New(g.pipeline, g.holding)
	return nil
}

// openMCP creates the gateway's MCP server.
func openMCP(_ context.Context, g *gateway, _ Options) error {
	g.mcp = mcpserver.New(mcpserver.Config{
		Tools: g.router, Pipeline: g.pipeline, Calls: g.calls, Caller: api.CallerOf, Catalog: catalog(g.engine, g.router), Offered: offered(g.engine, g.router),
		Upstreams: g.upstreams.List, Unsubscribe: g.upstreams.Unsubscribe,
		Arrive: func(c access.Caller, callID, name string, input []byte) *call.PriorAnswer {
			return g.hooks.Arrive(c, callID, name, input)
		},
		EndSession: func(ctx context.Context, session string) error { return g.desk.EndSession(ctx, session) },
		Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
			api.WriteError(w, r, g.log, api.MCPRoute, err)
		},
		Address: func() string { return reachable(g.listeners.at.API) },
		Limits:  callLimits(g.cfg), Version: version.Get().Version, Log: g.log,
	})
	g.upstreams.Watch(g.mcp.Clients)
	return nil
}

// swapped notifies the dependents of the policies about a new set.
func swapped(g *gateway) {
	g.isolation.Invalidate()
	if g.mcp != nil {
		g.mcp.Changed()
	}
	if g.lookAgain != nil {
		g.lookAgain()
	}
	if g.changing != nil {
		g.changing.Recheck()
	}
}

// openNotify creates the notification service. It sends nothing yet.
func openNotify(_ context.Context, g *gateway, _ Options) error {
	list, err := targets.New(g.cfg.Notify, targets.Parts{
		Gateway: g.authority.TrustDomain(), Lend: g.lending.Own, Denied: g.cfg.HTTP.DeniedHosts, Own: g.own, Log: g.log,
		Voter: &notify.Voter{Approvals: g.desk.Records, Votes: g.desk.Votes, Users: g.chatUsers, Members: g.registry, Permit: permit(g)},
	})
	if err != nil {
		return err
	}
	g.notify = notify.New(notify.Config{
		Store: g.stores.notify, Journal: g.journal, Approvals: g.desk.Records, Targets: list, Log: g.log,
		Link: func(id string) string {
			switch at := g.listeners.at; {
			case at.Console != "": // its pages have the same path, and "" is the inbox
				return at.Console + mcpserver.ApprovalsPath + id
			case id == "" || at.API == "":
				return ""
			default:
				return "https://" + reachable(at.API) + mcpserver.ApprovalsPath + id
			}
		},
	})
	return nil
}

// permit asks policy for a permission of the API.
func permit(g *gateway) func(access.Caller, access.Permission) error {
	return func(c access.Caller, p access.Permission) error {
		return g.engine.Current().Access().Permit(policy.AccessRequest{Caller: c, Permission: p})
	}
}

// votesGoOn returns a function that reports whether a vote cast by a device, or by a user of a
// chat, is still valid.
func votesGoOn(g *gateway) func(id string) bool {
	device := liveDevice(g.identity.Directory)
	return func(id string) bool { return device(id) || g.chatUsers.Live(id) }
}

// webhookVotes handles votes delivered by webhook receivers.
func webhookVotes(g *gateway) http.Handler {
	return presenceproof.Handler{
		Gateway: g.authority.TrustDomain(), Votes: g.desk.Votes, Authenticate: g.identity.Callers.Authenticate, Permit: permit(g), Log: g.log, Now: time.Now,
		Spend: func(c access.Caller) error {
			if ok, after := g.limiter.Allow(api.LimitDecide, c.Principal.String()); !ok {
				return reason.Errorf(reason.RateLimited, "too many votes; try again in %s", after.Round(time.Millisecond))
			}
			return nil
		},
		SpendUnsigned: api.CountAgain,
		Refused: func(ctx context.Context, code reason.Code) {
			g.auditor.Refused(ctx, "webhook", presenceproof.Route, code)
		},
		Refuse: errorsOf(g, presenceproof.Route),
	}
}

// runNotify sends notifications until ctx ends. No other part waits for it.
func runNotify(ctx context.Context, g *gateway) error {
	err := g.notify.Run(access.Precede(ctx, access.PrecedenceEnding))
	if err != nil && ctx.Err() == nil {
		g.log.WarnContext(ctx, "notifications have stopped", slog.Any("error", err))
	}
	return nil
}

// forbidden returns the reason why policy forbids a caller to commit changes regardless of
// approvals.
func forbidden(g *gateway, by access.Caller, f tool.CommitFacts) error {
	verdict := g.engine.Current().Evaluate(policy.Request{
		Caller: by, Tool: changesets.UndoTool, Capabilities: changesets.Tool{}.Descriptor().Capabilities, Commit: &f, Time: time.Now().UTC(),
		Facts: tool.Facts{Workspace: f.Workspace, Path: ".", SandboxTier: "builtin", SandboxLevel: "none"},
	}, nil)
	if verdict.Effect() != policy.Deny {
		return nil
	}
	return reason.Errorf(reason.CommitRefused, "policy does not allow %s these changes; the workspace is as it was", by.Principal)
}
