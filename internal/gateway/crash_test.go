//go:build unix

package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/decision"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/core/access"
	"palyra/internal/core/config"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/statedir"
	"palyra/internal/core/tool"
	"palyra/internal/evidence/attest"
	"palyra/internal/evidence/journal"
	"palyra/internal/gateway/gatewaytest"
	"palyra/internal/identity"
	"palyra/internal/vault/kek"
)

// TestKilledBetweenStages kills the daemon with SIGKILL near every border between two stages,
// 200 times in the whole test. The next start checks the state after each kill: the chain
// verifies, every started call has an end, every effect was decided, and no approval served two
// calls.
func TestKilledBetweenStages(t *testing.T) {
	t.Parallel()
	if os.Getenv(crashEnv) != "" {
		t.Skip("this is the parent of the crashing process")
	}
	if testing.Short() {
		t.Skip("make test kills at 40 borders, make test-all at 200")
	}
	kills := 40
	if needs.Long(2 * time.Minute) {
		kills = 200
	}
	program := crashingProgram(t)
	group, ctx := errgroup.WithContext(t.Context())
	var killed [2]int
	borders := countBorders(t, program)
	if borders < 14 {
		t.Fatalf("only %d borders between stages were seen", borders)
	}
	for worker := range killed {
		dir := filepath.Join(t.TempDir(), "state")
		group.Go(func() error {
			seed := rand.New(rand.NewPCG(uint64(worker), 42))
			for n := 0; killed[worker] < kills/len(killed); n++ {
				if n > 2*kills {
					return fmt.Errorf("only %d of %d runs were killed", killed[worker], n)
				}
				border := n%borders + 1
				died, err := crashOnce(ctx, program, dir, border, time.Duration(seed.IntN(1500))*time.Microsecond)
				if err != nil {
					return fmt.Errorf("run %d, border %d: %w", n, border, err)
				}
				if died {
					killed[worker]++
				}
			}
			// One more start checks the state after the last kill and stops normally.
			_, err := crashOnce(ctx, program, dir, 0, 0)
			return err
		})
	}
	must.Do(t, group.Wait())
	t.Logf("%d kills around %d borders", killed[0]+killed[1], borders)
}

const crashEnv = "TEST_PALYRA_CRASH"

// crashingProgram builds this test's program like palyrad, and returns its path. The program
// has no race detector, because reports of a killed process would be lost. With it, the 200
// starts would take longer than all other tests of the package together.
func crashingProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "crashing")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-trimpath", "-o", program, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building what is killed: %v: %s", err, out)
	}
	return program
}

// countBorders runs one call to its end and counts the borders it passed.
func countBorders(t *testing.T, program string) int {
	t.Helper()
	dir := t.TempDir()
	must.Get(crashOnce(t.Context(), program, filepath.Join(dir, "state"), 0, 0))(t)
	text := must.Get(os.ReadFile(filepath.Join(dir, "state", "borders")))(t)
	return must.Get(strconv.Atoi(string(text)))(t)
}

// crashOnce starts a process that makes one call and kills itself the duration after, measured
// from the border. died reports whether the process reached the border.
func crashOnce(ctx context.Context, program, dir string, border int, after time.Duration) (died bool, err error) {
	cmd := exec.CommandContext(ctx, program, "-test.run=^TestCrashingProcess$", "-test.count=1")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s,%d,%d", crashEnv, dir, border, after.Microseconds()))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true, nil
		}
		return false, fmt.Errorf("%w: %s", err, out)
	}
	return false, err
}

// TestCrashingProcess is the process that TestKilledBetweenStages kills.
func TestCrashingProcess(t *testing.T) {
	t.Parallel()
	spec := os.Getenv(crashEnv)
	if spec == "" {
		t.Skip("started by TestKilledBetweenStages")
	}
	parts := strings.Split(spec, ",")
	border, _ := strconv.Atoi(parts[1])
	micros, _ := strconv.Atoi(parts[2])
	killer := &killer{border: int64(border), after: time.Duration(micros) * time.Microsecond}
	w := openCrashWorld(t, parts[0], killer)
	w.checkInvariants()
	w.call()
	w.checkInvariants()
	must.Do(t, os.WriteFile(filepath.Join(parts[0], "borders"), []byte(strconv.FormatInt(killer.passed.Load(), 10)), 0o600))
	w.close()
}

// killer kills the process a fixed time after it passed a border.
type killer struct {
	border int64
	after  time.Duration
	passed atomic.Int64
}

func (k *killer) pass() {
	if k.passed.Add(1) != k.border {
		return
	}
	kill := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) }
	if k.after < 100*time.Microsecond {
		kill()
		select {}
	}
	time.AfterFunc(k.after, kill)
}

// crashWorld is a whole gateway without listeners.
type crashWorld struct {
	t      *testing.T
	g      *gateway
	caller access.Caller
	effect string
	stop   context.CancelFunc
	parts  *errgroup.Group
}

func openCrashWorld(t *testing.T, dir string, k *killer) *crashWorld {
	t.Helper()
	cfg := config.Default()
	cfg.Vault.Backend = kek.InFile
	cfg.StateDir = dir
	cfg.ProcessRunner.Enabled = false
	cfg.Approvals.MaxCreatedPerMinutePerPrincipal = 10_000 // each run requests an approval, and a fast machine makes more than one run a second
	w := &crashWorld{t: t, effect: filepath.Join(dir, "effect")}
	g, err := build(t.Context(), Options{
		Config: cfg, Log: slog.New(slog.DiscardHandler),
		tools: []tool.Runnable{appendTool(w.effect)},
		wrap: func(c call.Config) call.Config {
			c.Evaluator, c.Approver = killingEvaluator{c.Evaluator, k}, killingApprover{c.Approver, k}
			c.Dispatcher, c.Notary = killingDispatcher{c.Dispatcher, k}, killingNotary{c.Notary, k}
			c.Ledger = killingLedger{c.Ledger, k}
			return c
		},
	})
	if err != nil {
		t.Fatalf("starting after a kill: %v", err)
	}
	w.g = g
	w.caller = firstOperator(t, g)
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	w.parts = &errgroup.Group{}
	w.parts.Go(func() error { return g.desk.Run(ctx) })
	w.parts.Go(func() error { return w.approveAll(ctx) })
	return w
}

// firstOperator creates the local operator of a gateway without listeners, loads the policies,
// and returns the operator as a caller of the API.
func firstOperator(t *testing.T, g *gateway) access.Caller {
	t.Helper()
	device, _, err := g.identity.Local.Start(t.Context(), identity.LocalConfig{Dir: statedir.Operator(g.cfg.StateDir), Address: "127.0.0.1:1", ServerName: serverName})
	must.Do(t, err)
	must.Do(t, g.policies.Loader.Load(t.Context()))
	return access.Caller{
		Principal: device.Principal, OnBehalfOf: device.Principal, Roles: []access.Role{access.RoleOwner},
		DeviceID: device.ID, Surface: access.SurfaceGRPC, Paired: true,
	}
}

// approveAll approves every pending request until the context ends.
func (w *crashWorld) approveAll(ctx context.Context) error {
	err := w.g.desk.Records.Watch(ctx, 0, nil, func(r approval.Record) error {
		if r.State != approval.Pending || len(r.Votes) > 0 {
			return nil
		}
		_, err := w.g.desk.Votes.Decide(ctx, w.caller, r.ID, approval.Ballot{Allow: true, ShownDigest: r.CallDigest})
		return err
	})
	if ctx.Err() == nil {
		return err
	}
	return nil
}

// call makes the same call every time, so that an approval left by a kill would fit it.
func (w *crashWorld) call() {
	w.t.Helper()
	out, err := w.g.pipeline.Call(w.t.Context(), call.Submission{Caller: w.caller, Tool: "test.append"}, func(call.Event) {})
	if err != nil || !out.Decision.Allowed || out.Report.Outcome != tool.Succeeded {
		w.t.Fatalf("the call did not run: %+v, %v", out, err)
	}
}

func (w *crashWorld) close() {
	w.t.Helper()
	w.stop()
	must.Check(w.t, w.parts.Wait())
	must.Check(w.t, w.g.close(nil))
}

// checkInvariants fails if the state violates an invariant.
func (w *crashWorld) checkInvariants() {
	w.t.Helper()
	if _, err := w.g.journal.VerifyFull(w.t.Context()); err != nil {
		w.t.Fatalf("the journal does not verify: %v", err)
	}
	for _, problem := range w.read().problems(w.effects()) {
		w.t.Error(problem)
	}
}

// effects lists the proposals whose calls had their effect.
func (w *crashWorld) effects() []string {
	w.t.Helper()
	text, err := os.ReadFile(w.effect)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Fatal(err)
	}
	return strings.Fields(string(text))
}

// problems lists the violated invariants.
func (s story) problems(effects []string) []string {
	var list []string
	add := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	for id := range s.decided {
		if s.ends[id] != 1 {
			add("call %s was started and has %d ends", id, s.ends[id])
		}
	}
	for id, n := range s.consumed {
		if n != 1 {
			add("approval %s was consumed %d times", id, n)
		}
	}
	for id, n := range s.cited {
		if id != "" && n > 1 {
			add("approval %s served %d calls", id, n)
		}
	}
	seen := make(map[string]bool)
	for _, id := range effects {
		if !s.decided[id] {
			add("call %s had its effect and no decision is on record", id)
		}
		if seen[id] {
			add("call %s had its effect twice", id)
		}
		seen[id] = true
	}
	return list
}

// TestInvariantsSeeDefects is the control: each defect that the crash test searches for is
// found when present.
func TestInvariantsSeeDefects(t *testing.T) {
	t.Parallel()
	whole := func() story {
		return story{
			decided: map[string]bool{"a": true}, ends: map[string]int{"a": 1},
			consumed: map[string]int{"x": 1}, cited: map[string]int{"x": 1},
		}
	}
	if found := whole().problems([]string{"a"}); len(found) > 0 {
		t.Fatalf("a whole story has problems: %v", found)
	}
	for name, c := range map[string]struct {
		damage  func(story)
		effects []string
	}{
		"no end":           {func(s story) { delete(s.ends, "a") }, nil},
		"two ends":         {func(s story) { s.ends["a"] = 2 }, nil},
		"consumed twice":   {func(s story) { s.consumed["x"] = 2 }, nil},
		"served two calls": {func(s story) { s.cited["x"] = 2 }, nil},
		"undecided effect": {func(story) {}, []string{"b"}},
		"effect twice":     {func(story) {}, []string{"a", "a"}},
	} {
		s := whole()
		c.damage(s)
		if len(s.problems(c.effects)) != 1 {
			t.Errorf("%s: found %v", name, s.problems(c.effects))
		}
	}
}

// story is the content of the journal, counted by call and approval.
type story struct {
	decided  map[string]bool
	ends     map[string]int
	consumed map[string]int
	cited    map[string]int
}

func (w *crashWorld) read() story {
	w.t.Helper()
	s := story{decided: map[string]bool{}, ends: map[string]int{}, consumed: map[string]int{}, cited: map[string]int{}}
	after := int64(0)
	for {
		page := must.Get(w.g.journal.List(w.t.Context(), journal.Filter{After: after}))(w.t)
		if len(page) == 0 {
			return s
		}
		for _, e := range page {
			s.add(w.t, e)
			after = e.Seq
		}
	}
}

func (s story) add(t *testing.T, e journal.Event) {
	t.Helper()
	switch e.Code {
	case event.Decided:
		var d decision.Record
		must.Do(t, json.Unmarshal(e.Payload, &d))
		if d.Allowed {
			s.decided[e.Subject] = true
			s.cited[d.ApprovalID]++
		}
	case event.Attested, event.Ambiguous:
		s.ends[e.Subject]++
	case event.Consumed:
		s.consumed[e.Subject]++
	}
}

// appendTool returns a tool with a countable effect: it appends a line with the proposal's id.
func appendTool(path string) *gatewaytest.Probe {
	p := gatewaytest.NewProbe(tool.Descriptor{
		Name: "test.append", Title: "Append a line", Executor: tool.Builtin,
		Capabilities: []tool.Capability{tool.FilesystemWrite},
		InputSchema:  json.RawMessage(`{"type":"object","additionalProperties":false}`),
	})
	p.Found = tool.Plan{Subject: "test.append", Facts: tool.Facts{SandboxTier: "builtin", SandboxLevel: "none"}}
	p.Work = func(_ context.Context, c tool.Call) tool.Report {
		r := gatewaytest.Succeeded(`{}`)
		f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintln(f, c.Proposal.ID)
			err = errors.Join(err, f.Sync(), f.Close())
		}
		if err != nil {
			r.Outcome, r.Message = tool.Failed, err.Error()
		}
		return r
	}
	return p
}

type killingEvaluator struct {
	call.Evaluator
	k *killer
}

func (e killingEvaluator) Evaluate(ctx context.Context, r policy.Request, g []policy.Grant) (policy.Verdict, error) {
	e.k.pass()
	defer e.k.pass()
	return e.Evaluator.Evaluate(ctx, r, g)
}

type killingApprover struct {
	call.Approver
	k *killer
}

func (a killingApprover) Resolve(ctx context.Context, ask *approval.Ask, observe func(*approval.Record)) (approval.Answer, error) {
	a.k.pass()
	defer a.k.pass()
	return a.Approver.Resolve(ctx, ask, func(r *approval.Record) {
		a.k.pass()
		observe(r)
	})
}

func (a killingApprover) Consume(ctx context.Context, answer approval.Answer, extra ...event.Draft) error {
	a.k.pass()
	defer a.k.pass()
	return a.Approver.Consume(ctx, answer, extra...)
}

type killingDispatcher struct {
	call.Dispatcher
	k *killer
}

func (d killingDispatcher) Check(name string, input []byte) (tool.Descriptor, []byte, error) {
	d.k.pass()
	return d.Dispatcher.Check(name, input)
}

func (d killingDispatcher) Plan(ctx context.Context, p tool.Proposal) (tool.Plan, error) {
	d.k.pass()
	return d.Dispatcher.Plan(ctx, p)
}

func (d killingDispatcher) Run(ctx context.Context, c *dispatch.Decided) tool.Report {
	d.k.pass()
	defer d.k.pass()
	return d.Dispatcher.Run(ctx, c)
}

type killingNotary struct {
	call.Notary
	k *killer
}

func (n killingNotary) Sign(ctx context.Context, x attest.Execution) (attest.Envelope, error) {
	n.k.pass()
	defer n.k.pass()
	return n.Notary.Sign(ctx, x)
}

type killingLedger struct {
	call.Ledger
	k *killer
}

func (l killingLedger) Record(ctx context.Context, e call.Entry) (int64, error) {
	l.k.pass()
	defer l.k.pass()
	return l.Ledger.Record(ctx, e)
}
