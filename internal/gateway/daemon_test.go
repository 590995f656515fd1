package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/statedir"
	"palyra/internal/core/tool"
	"palyra/internal/exec/builtin"
	"palyra/internal/identity"
	"palyra/internal/vault/kek"
	"palyra/test/leaks"
)

// running is a daemon in the process of the test.
type running struct {
	Addresses
	t      *testing.T
	cfg    *config.Config
	reload chan struct{}
	stop   context.CancelFunc
	// done receives the daemon's error; ended is closed afterwards.
	done  chan error
	ended chan struct{}
}

func testConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg := config.Default()
	dir := t.TempDir()
	cfg.StateDir, cfg.Vault.Backend = filepath.Join(dir, "state"), kek.InFile // no test creates keys in the keyring of the user who runs it
	t.Cleanup(func() {
		_, told, err := leaks.Look(dir, nil)
		if must.Check(t, err); len(told) > 0 {
			t.Errorf("keys stand where they must not: %v", told)
		}
	})
	cfg.Listen.API, cfg.Listen.Metrics, cfg.Listen.Console = "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.ProcessRunner.Enabled = false
	cfg.Storage.ReserveBytes = 1 << 20
	return cfg
}

// start runs a daemon until the test ends or stops the daemon.
func start(t *testing.T, cfg *config.Config) *running {
	t.Helper()
	return startWith(t, Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
}

// startWith sets the callbacks for readiness and reload, and starts the daemon.
func startWith(t *testing.T, o Options) *running {
	t.Helper()
	cfg := o.Config
	ctx, stop := context.WithCancel(context.Background())
	d := &running{t: t, cfg: cfg, stop: stop, done: make(chan error, 1), ended: make(chan struct{}), reload: make(chan struct{})}
	ready := make(chan Addresses, 1)
	go func() {
		defer close(d.ended)
		o.Reload, o.Ready = d.reload, func(a Addresses) { ready <- a }
		d.done <- Run(ctx, o)
	}()
	select {
	case d.Addresses = <-ready:
	case err := <-d.done:
		stop()
		t.Fatalf("the daemon did not start: %v", err)
	}
	// The daemon writes to its directory until it has ended; the test then removes the directory.
	t.Cleanup(func() { stop(); <-d.ended })
	return d
}

// end stops the daemon and waits for its end, which must have no error.
func (d *running) end() {
	d.t.Helper()
	d.stop()
	if err := <-d.done; err != nil {
		d.t.Fatalf("the daemon stopped with %v", err)
	}
}

// client returns a client of the local operator.
func (d *running) client() *http.Client {
	d.t.Helper()
	return dialAs(d.t, d.Credentials)
}

func (d *running) url() string { return "https://" + d.API }

func (d *running) get(path string) (int, string) {
	d.t.Helper()
	res := must.Get(http.Get("http://" + d.Metrics + path))(d.t)
	defer func() { _ = res.Body.Close() }()
	text := must.Get(io.ReadAll(res.Body))(d.t)
	return res.StatusCode, string(text)
}

func TestServesAndStopsInOrder(t *testing.T) {
	t.Parallel()
	d := start(t, testConfig(t))
	status := palyrav1connect.NewStatusServiceClient(d.client(), d.url())
	res := must.Get(status.GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
	if !res.GetReady() || res.GetCaller().GetPrincipal() != "user:local" || res.GetCaller().GetCertificateExpiresAt() == nil {
		t.Errorf("status = %v", res)
	}
	if code, text := d.get("/readyz"); code != http.StatusOK {
		t.Errorf("readyz = %d %s", code, text)
	}
	if _, text := d.get("/metrics"); !strings.Contains(text, "palyra_ready 1") || !strings.Contains(text, "palyra_journal_size") {
		t.Error("the metrics lack palyra_ready or palyra_journal_size")
	}
	d.end()
	d.client().CloseIdleConnections()

	// The next start records that the last one stopped normally, under a checkpoint.
	again := start(t, d.cfg)
	events := palyrav1connect.NewJournalServiceClient(again.client(), again.url())
	page := must.Get(events.ListEvents(t.Context(), &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Code: "PAL-J"}}))(t)
	var codes []string
	for _, e := range page.GetEvents() {
		codes = append(codes, e.GetCode())
	}
	want := []string{string(event.Opened), string(event.Closed), string(event.Checkpoint), string(event.Opened)}
	if strings.Join(codes, " ") != strings.Join(want, " ") {
		t.Errorf("journal events %v, want %v", codes, want)
	}
	again.end()
}

func TestOneDaemonPerStateDirectory(t *testing.T) {
	t.Parallel()
	d := start(t, testConfig(t))
	other := *d.cfg
	err := Run(t.Context(), Options{Config: &other, Log: slog.New(slog.DiscardHandler)})
	if !errors.Is(err, statedir.ErrInUse) || !strings.Contains(err.Error(), "process ") {
		t.Errorf("a second daemon got %v, want that the directory is in use, by which process", err)
	}
	d.end()
	// Control: once the first daemon has stopped, the directory is free.
	start(t, &other).end()
}

func TestStateDirectoryMustBePrivate(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	must.Do(t, os.MkdirAll(cfg.StateDir, 0o700))
	chmod(t, cfg.StateDir, 0o755)
	err := Run(t.Context(), Options{Config: cfg, Log: slog.New(slog.DiscardHandler)})
	var known *reason.Error
	if !errors.As(err, &known) || known.Code != reason.ConfigInvalid || !strings.Contains(known.NextStep(), "chmod 700") {
		t.Errorf("a state directory with mode 0755 gives %v", err)
	}
}

func TestBrokenPolicyKeepsTheRunningSet(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.Policy.Dir = t.TempDir()
	d := start(t, cfg)
	policies := palyrav1connect.NewPolicyServiceClient(d.client(), d.url())
	before, err := policies.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{})
	must.Do(t, err)
	file := filepath.Join(cfg.Policy.Dir, "10-own.cedar")
	must.Write(t, file, `permit(principal, action, resource) when { contxt.risk }`)
	_, err = policies.ReloadPolicy(t.Context(), &palyrav1.ReloadPolicyRequest{})
	if connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("reloading a broken policy gives %v", err)
	}
	after, err := policies.GetPolicy(t.Context(), &palyrav1.GetPolicyRequest{})
	if err != nil || after.GetVersion() != before.GetVersion() {
		t.Errorf("the running set changed from %s to %s, %v", before.GetVersion(), after.GetVersion(), err)
	}
	// Control: a valid policy comes into force.
	must.Write(t, file, "@id(\"own.no-echo\")\n@reason(\"no echo\")\nforbid(principal, action == Action::\"tool.execute/echo\", resource);\n")
	must.Get(policies.ReloadPolicy(t.Context(), &palyrav1.ReloadPolicyRequest{}))(t)
	calls := palyrav1connect.NewGatewayServiceClient(d.client(), d.url())
	verdict, err := calls.EvaluateTool(t.Context(), &palyrav1.EvaluateToolRequest{Tool: "echo", InputJson: []byte(`{"text":"x"}`)})
	if err != nil || verdict.GetVerdict() != "deny" {
		t.Errorf("the new policy gives %v, %v", verdict, err)
	}
	if _, err := policies.GetSnapshot(t.Context(), &palyrav1.GetSnapshotRequest{SnapshotDigest: verdict.GetSnapshotDigest()}); err != nil {
		t.Errorf("the snapshot behind the verdict: %v", err)
	}
	d.end()
}

// TestOfflineToolsAreTheBuiltinOnes: the daemon's tools equal the list that `palyra policy
// check` uses without a gateway.
func TestOfflineToolsAreTheBuiltinOnes(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../cli/policy/builtin_tools.json"))(t)
	var listed []tool.Descriptor
	must.Do(t, json.Unmarshal(text, &listed))
	offline := make(map[string]string)
	for _, d := range listed {
		offline[d.Name] = digest(t, d)
	}
	cfg := must.Get(builtinConfig(config.Default(), nil, isolation{}))(t)
	tools := builtin.New(cfg)
	for _, b := range tools {
		d := b.Descriptor()
		if offline[d.Name] != digest(t, d) {
			t.Errorf("internal/cli/policy/builtin_tools.json has another definition of %s; copy the one of builtin", d.Name)
		}
	}
	if len(tools) != len(listed) {
		t.Errorf("internal/cli/policy/builtin_tools.json lists %d tools, builtin has %d", len(listed), len(tools))
	}
}

func digest(t *testing.T, d tool.Descriptor) string {
	t.Helper()
	return must.Get(d.Digest())(t)
}

func TestOperatorAddedOnlineAndOffline(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	d := start(t, cfg)
	online := filepath.Join(t.TempDir(), "bob")
	must.Get(AddOperator(t.Context(), cfg, NewOperator{
		Name: "bob", Roles: []access.Role{access.RoleOperator}, Dir: online, AcceptLoss: true,
	}))(t)
	with := func(dir string) *http.Client {
		bundle := must.Get(identity.ReadBundle(dir))(t)
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: bundle.ClientTLS(), ForceAttemptHTTP2: true}, Timeout: must.Patience}
		t.Cleanup(client.CloseIdleConnections)
		return client
	}
	whoIs := func(d *running, dir string) string {
		client := with(dir)
		res := must.Get(palyrav1connect.NewStatusServiceClient(client, d.url()).GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		return res.GetCaller().GetPrincipal()
	}
	if who := whoIs(d, online); who != "user:bob" {
		t.Errorf("the bundle made online is %s", who)
	}
	d.end()
	offline := filepath.Join(t.TempDir(), "coder")
	must.Get(AddOperator(t.Context(), cfg, NewOperator{
		Name: "coder", Roles: []access.Role{access.RoleAgent}, Owner: access.User("bob"), Dir: offline,
	}))(t)
	again := start(t, cfg)
	must.Get(palyrav1connect.NewAccessServiceClient(with(online), again.url()).ConsentToAgent(t.Context(), &palyrav1.ConsentToAgentRequest{Agent: "coder"}))(t)
	if who := whoIs(again, offline); who != "agent:coder" {
		t.Errorf("the bundle made offline is %s", who)
	}
	again.end()
	if _, err := AddOperator(t.Context(), cfg, NewOperator{Name: "x", Dir: offline}); reason.Of(err) != reason.AlreadyExists {
		t.Errorf("overwriting a bundle gives %v", err)
	}
}
