package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/identity"
)

// dialAs returns a client with a bundle's credential.
func dialAs(t *testing.T, dir string) *http.Client {
	t.Helper()
	bundle := must.Get(identity.ReadBundle(dir))(t)
	transport := &http.Transport{TLSClientConfig: bundle.ClientTLS(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// TestFirstStart: the first start puts one set of policies in force, which includes the first
// operator, and logs it once.
func TestFirstStart(t *testing.T) {
	t.Parallel()
	book := &gatewaytest.Log{}
	d := startWith(t, Options{Config: testConfig(t), Log: book.Logger()})
	if n := book.Count("policy in force"); n != 1 {
		t.Errorf("%d sets of policies came into force at the first start", n)
	}
	calls := palyrav1connect.NewGatewayServiceClient(d.client(), d.url())
	if v, err := calls.EvaluateTool(t.Context(), &palyrav1.EvaluateToolRequest{Tool: "echo", InputJson: []byte(`{"text":"x"}`)}); err != nil || v.GetVerdict() != "allow" {
		t.Errorf("the first operator's call: %v, %v", v, err)
	}
	d.end()
}

// panicking returns a tool that panics.
func panicking() *gatewaytest.Probe {
	p := gatewaytest.NewProbe(tool.Descriptor{
		Name: "test.panic", Title: "Panic", Description: "Panics.", InputSchema: json.RawMessage(`{"type":"object","additionalProperties":false}`),
		Capabilities: []tool.Capability{tool.FilesystemRead}, Executor: tool.Builtin, ReadOnly: true,
	})
	p.Found = tool.Plan{Subject: "test.panic", Facts: tool.Facts{SandboxTier: "builtin", SandboxLevel: "none"}}
	p.Work = func(context.Context, tool.Call) tool.Report { panic("a fault of the tool") }
	return p
}

// TestFaultsOfToolsAreLogged: the log contains the fault of a tool, because the caller's error
// does not.
func TestFaultsOfToolsAreLogged(t *testing.T) {
	t.Parallel()
	book := &gatewaytest.Log{}
	d := startWith(t, Options{Config: testConfig(t), Log: book.Logger(), tools: []tool.Runnable{panicking()}})
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: "test.panic", InputJson: []byte("{}")}))(t)
	for stream.Receive() {
	}
	must.Do(t, stream.Close())
	if book.Count("a fault of the tool") == 0 || book.Count("test.panic") == 0 {
		t.Error("the log does not hold the fault of a tool")
	}
	d.end()
}

// TestStop: running calls get the duration stop_timeout to end and are then stopped. Their
// clients get the outcome in both cases, and new calls are refused with the reason. The log
// names the calls that the stop waits for and those that it stopped.
func TestStop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		timeout time.Duration
		release bool
		want    tool.Outcome
		reason  reason.Code
		killed  int
	}{
		"ends in time": {time.Hour, true, tool.Succeeded, "", 0},
		"is ended":     {0, false, tool.Stopped, reason.ShuttingDown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			book, began, release := &gatewaytest.Log{}, make(chan struct{}), make(chan struct{})
			slow := panicking()
			slow.Work = func(ctx context.Context, _ tool.Call) tool.Report {
				close(began)
				select {
				case <-release:
					return gatewaytest.Succeeded(`{}`)
				case <-ctx.Done():
					report := gatewaytest.Succeeded(`{}`)
					report.Outcome, report.Reason = tool.Stopped, string(reason.Of(context.Cause(ctx)))
					return report
				}
			}
			cfg := testConfig(t)
			cfg.StopTimeout = c.timeout
			d := startWith(t, Options{Config: cfg, Log: book.Logger(), tools: []tool.Runnable{slow}})
			calls := palyrav1connect.NewGatewayServiceClient(d.client(), d.url())
			stream := must.Get(calls.CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: "test.panic", InputJson: []byte("{}")}))(t)
			defer func() { _ = stream.Close() }()
			<-began
			d.stop()
			if c.release {
				for err := error(nil); connect.CodeOf(err) != connect.CodeUnavailable; {
					err = callEcho(t.Context(), calls)
					if err != nil && !strings.Contains(err.Error(), "the gateway is stopping") {
						t.Fatalf("a new call got %v", err)
					}
				}
				close(release)
			}
			var result *palyrav1.ToolResult
			for stream.Receive() {
				if r := stream.Msg().GetResult(); r != nil {
					result = r
				}
			}
			if err := stream.Err(); err != nil {
				t.Errorf("the stream ended with %v", err)
			}
			if result.GetOutcome() != string(c.want) || result.GetReason() != string(c.reason) {
				t.Errorf("the result is %v", result)
			}
			must.Do(t, <-d.done)
			for text, n := range map[string]int{"waiting for a call to end": 1, "a call was ended by the stop": c.killed, "a call did not succeed": c.killed, "palyrad has stopped": 1} {
				if got := book.Count(text); got != n {
					t.Errorf("the log has %q %d times, want %d", text, got, n)
				}
			}
		})
	}
}

// TestLogNamesWhoFroze: the start and end of a freeze are logged, with the member and the reason.
func TestLogNamesWhoFroze(t *testing.T) {
	t.Parallel()
	book := &gatewaytest.Log{}
	d := startWith(t, Options{Config: testConfig(t), Log: book.Logger()})
	status := palyrav1connect.NewStatusServiceClient(d.client(), d.url())
	must.Get(status.Freeze(t.Context(), &palyrav1.FreezeRequest{Reason: "a drill"}))(t)
	must.Get(status.Thaw(t.Context(), &palyrav1.ThawRequest{}))(t)
	for _, text := range []string{"the gateway is frozen", "a drill", "the gateway is thawed"} {
		if book.Count(text) != 1 {
			t.Errorf("the log has %q %d times", text, book.Count(text))
		}
	}
	if book.Count("user:local") < 2 {
		t.Error("the log does not say who")
	}
	d.end()
}

func callEcho(ctx context.Context, calls palyrav1connect.GatewayServiceClient) error {
	stream, err := calls.CallTool(ctx, &palyrav1.CallToolRequest{Tool: "echo", InputJson: []byte(`{"text":"x"}`)})
	if err != nil {
		return err
	}
	for stream.Receive() {
	}
	return errors.Join(stream.Err(), stream.Close())
}

// TestRevocationReachesTheAPI: the streams of a device end when the device is revoked.
func TestRevocationReachesTheAPI(t *testing.T) {
	t.Parallel()
	book := &gatewaytest.Log{}
	d := startWith(t, Options{Config: testConfig(t), Log: book.Logger()})
	dir := filepath.Join(t.TempDir(), "bob")
	device := must.Get(AddOperator(t.Context(), d.cfg, NewOperator{Name: "bob", Roles: []access.Role{access.RoleOperator}, Dir: dir, AcceptLoss: true}))(t)
	watch := func(client *http.Client) chan error {
		stream := must.Get(palyrav1connect.NewApprovalsServiceClient(client, d.url()).WatchApprovals(t.Context(), &palyrav1.WatchApprovalsRequest{}))(t)
		if !stream.Receive() {
			t.Fatalf("the stream did not open: %v", stream.Err())
		}
		ended := make(chan error, 1)
		go func() {
			for stream.Receive() {
			}
			ended <- errors.Join(stream.Err(), stream.Close())
		}()
		return ended
	}
	own, revoked := watch(d.client()), watch(dialAs(t, dir))
	must.Get(palyrav1connect.NewIdentityServiceClient(d.client(), d.url()).RevokeDevice(t.Context(), &palyrav1.RevokeDeviceRequest{DeviceId: device, Reason: "lost", AcceptLoss: true}))(t)
	if book.Count("a device was revoked") != 1 || book.Count(device) == 0 {
		t.Error("the log does not hold the revocation")
	}
	if err := must.Receive(t, "the revoked device's stream ends", revoked); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("the revoked device's stream ended with %v", err)
	}
	// Control: another device's stream stays open.
	select {
	case err := <-own:
		t.Errorf("another device's stream ended with %v", err)
	default:
	}
	d.end()
}

// ill is a store whose writes fail until it is well.
type ill struct {
	mu     sync.Mutex
	well   bool
	err    error
	probed []time.Time
}

func (d *ill) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *ill) Probe() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.probed = append(d.probed, time.Now())
	if d.well {
		d.err = nil
	}
	return d.err
}

// becomes sets the store's health.
func (d *ill) becomes(err error, well bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err, d.well = err, well
}

func (d *ill) tries() []time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.probed)
}

// TestProblemsOnlyReads: any caller may request the health, so a health check MUST NOT write.
func TestProblemsOnlyReads(t *testing.T) {
	t.Parallel()
	store := &ill{err: errors.New("disk full"), well: true}
	for range 100 {
		if got := problemsOf(store); len(got) != 1 || !strings.Contains(got[0], "disk full") {
			t.Fatalf("problems %q", got)
		}
	}
	if len(store.probed) != 0 {
		t.Errorf("asking for problems wrote to the disk %d times", len(store.probed))
	}
	if got := problemsOf(&ill{}); len(got) != 0 {
		t.Errorf("a healthy store has the problems %q", got)
	}
}

// TestStoreWriteIsRetried: a failing store write is retried with increasing intervals, and the
// gateway is ready again after the first successful write.
func TestStoreWriteIsRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &ill{}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- mend(ctx, slog.New(slog.DiscardHandler), store) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(store.tries()); n != 0 {
			t.Errorf("a healthy store was tried %d times", n)
		}
		store.becomes(errors.New("disk full"), false)
		time.Sleep(time.Hour)
		synctest.Wait()
		tries := store.tries()
		if n := len(tries); n < 110 || n > 130 {
			t.Fatalf("%d tries in an hour, want one in %s after the first", n, longestMend)
		}
		if first := tries[1].Sub(tries[0]); first != 2*shortestMend {
			t.Errorf("the second try came after %s", first)
		}
		store.becomes(errors.New("disk full"), true)
		time.Sleep(longestMend)
		synctest.Wait()
		if len(problemsOf(store)) != 0 {
			t.Error("the store is well and was not tried")
		}
		stop()
		must.Check(t, <-done)
	})
}

// TestMissingSandboxIsReportedBeforeAsking: without bubblewrap, process.run is refused when it is
// planned, and no approval is requested.
func TestMissingSandboxIsReportedBeforeAsking(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.ProcessRunner.Enabled = true
	cfg.Workspaces = append(cfg.Workspaces, workspaceAt(t))
	g := must.Get(build(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(func() { _ = g.close(nil) })
	g.isolation.Status = sandbox.Status{Problem: "bubblewrap is not installed at /usr/bin/bwrap", Remedy: "Install it."}
	g.isolation.watch = g.isolation.Watch(g.log)
	must.Do(t, openPolicy(t.Context(), g, Options{}))
	descriptor, input, err := g.router.Check("process.run", []byte(`{"argv":["true"]}`))
	must.Do(t, err)
	_, err = g.router.Plan(t.Context(), tool.Proposal{ID: "p", Tool: descriptor, Input: input})
	if reason.Of(err) != reason.SandboxUnavailable || !strings.Contains(err.Error(), "bubblewrap is not installed") {
		t.Errorf("planning without a sandbox gives %v", err)
	}
}

// TestOperatorOfflineNeedsAnAddress: with port 0 and no daemon that ever ran,
// there is no address to write into a bundle.
func TestOperatorOfflineNeedsAnAddress(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	bob := NewOperator{Name: "bob", Roles: []access.Role{access.RoleOperator}, Dir: filepath.Join(t.TempDir(), "bob"), AcceptLoss: true}
	_, err := AddOperator(t.Context(), cfg, bob)
	if reason.Of(err) != reason.ConfigInvalid {
		t.Errorf("a bundle for port 0: %v", err)
	}
	if _, err := os.Stat(bob.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a bundle was left: %v", err)
	}
	d := start(t, cfg)
	d.end()
	// Control: the last daemon's address is stored, and both bundles have it.
	must.Get(AddOperator(t.Context(), cfg, bob))(t)
	for _, dir := range []string{bob.Dir, statedir.Operator(cfg.StateDir)} {
		if b, err := identity.ReadBundle(dir); err != nil || b.Address != d.API {
			t.Errorf("the bundle in %s is for %s, %v; the daemon was at %s", dir, b.Address, err, d.API)
		}
	}
}

// TestDecisionsAreCountedByDecision: the metric counts decisions, not the policy's verdicts.
func TestDecisionsAreCountedByDecision(t *testing.T) {
	t.Parallel()
	d := start(t, testConfig(t))
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(d.client(), d.url()).CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: "echo", InputJson: []byte(`{"text":"x"}`)}))(t)
	for stream.Receive() {
	}
	must.Do(t, stream.Close())
	d.eventually("/metrics", `palyra_decisions_total{decision="allow",reason=""} 1`)
	d.end()
}

// bearer sends a token with every request.
type bearer struct {
	http.RoundTripper
	token string
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// TestTokensEndWithTheirMember: a token's open streams end when its member is disabled. The
// token is refused until the member is enabled again.
func TestTokensEndWithTheirMember(t *testing.T) {
	t.Parallel()
	d := startWith(t, Options{Config: testConfig(t), Log: slog.New(slog.DiscardHandler)})
	dir := filepath.Join(t.TempDir(), "bob")
	must.Get(AddOperator(t.Context(), d.cfg, NewOperator{Name: "bob", Roles: []access.Role{access.RoleOperator}, Dir: dir, AcceptLoss: true}))(t)
	made := must.Get(palyrav1connect.NewTokenServiceClient(dialAs(t, dir), d.url()).CreateToken(t.Context(), &palyrav1.CreateTokenRequest{
		Name: "ci", Scopes: []string{string(access.PermApprovalRead)},
	}))(t)
	own := must.Get(identity.ReadBundle(dir))(t)
	transport := &http.Transport{TLSClientConfig: identity.Bundle{Root: own.Root, ServerName: own.ServerName, Token: made.GetText()}.ClientTLS(), ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	approvals := palyrav1connect.NewApprovalsServiceClient(&http.Client{Transport: bearer{transport, made.GetText()}}, d.url())
	stream := must.Get(approvals.WatchApprovals(t.Context(), &palyrav1.WatchApprovalsRequest{}))(t)
	if !stream.Receive() {
		t.Fatalf("the stream did not open: %v", stream.Err())
	}
	members := palyrav1connect.NewAccessServiceClient(d.client(), d.url())
	must.Get(members.DisableMember(t.Context(), &palyrav1.DisableMemberRequest{Member: "bob", AcceptLoss: true}))(t)
	for stream.Receive() {
	}
	if err := stream.Err(); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("the stream ended with %v", err)
	}
	if _, err := approvals.ListApprovals(t.Context(), &palyrav1.ListApprovalsRequest{}); connect.CodeOf(err) != connect.CodeUnauthenticated {
		t.Errorf("the token of a disabled member: %v", err)
	}
	must.Get(members.EnableMember(t.Context(), &palyrav1.EnableMemberRequest{Member: "bob", AcceptLoss: true}))(t)
	if _, err := approvals.ListApprovals(t.Context(), &palyrav1.ListApprovalsRequest{}); err != nil {
		t.Errorf("the token of an enabled member: %v", err)
	}
}
