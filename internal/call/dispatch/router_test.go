package dispatch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/call/decision"
	"palyra/internal/call/dispatch"
	"palyra/internal/call/policy"
	"palyra/internal/call/policy/policytest"
	"palyra/internal/core/access"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

func allowed(t *testing.T) policy.Verdict {
	t.Helper()
	return policytest.Set(t, policytest.Options{}).Evaluate(policytest.Request("fs.read", `{"path":"a"}`), nil)
}

func wantRefused(t *testing.T, what string, w *world, report tool.Report, code reason.Code) {
	t.Helper()
	if report.Outcome != tool.Refused || report.Reason != string(code) || report.Message == "" {
		t.Errorf("%s: outcome %s, reason %s (%s), want refused, %s", what, report.Outcome, report.Reason, report.Message, code)
	}
	if n := w.tool.Runs.Load(); n != 0 {
		t.Errorf("%s: the tool ran %d times", what, n)
	}
}

func TestRunsADecidedCallOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.decide(t, w.proposal(t))
	if report := w.Run(t.Context(), d); report.Outcome != tool.Succeeded || string(report.Result) != `{"ok":true}` {
		t.Fatalf("got %+v", report)
	}
	if report := w.Run(t.Context(), d); report.Outcome != tool.Refused || report.Reason != string(reason.PermitRefused) {
		t.Errorf("a replay: %+v", report)
	}
	if n := w.tool.Runs.Load(); n != 1 {
		t.Errorf("the tool ran %d times", n)
	}
}

func TestInvalidPermitDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.decide(t, w.proposal(t))
	for name, permit := range map[string]*decision.Permit{"nil": nil, "zero": {}} {
		forged := *d
		forged.Permit = permit
		wantRefused(t, name, w, w.Run(t.Context(), &forged), reason.PermitRefused)
	}
	if report := w.Run(t.Context(), d); report.Outcome != tool.Succeeded {
		t.Errorf("the control with its permit: %+v", report)
	}
}

// flips change each bound field. The world changes fields through the tool's plan, the caller
// through the proposal, and an upgrade through the descriptor. Every name of tool.BindingFields
// has a flip.
var flips = map[string]func(*world, *dispatch.Decided){
	"principal":    func(_ *world, d *dispatch.Decided) { d.Proposal.Caller.Principal = access.Agent("other") },
	"on_behalf_of": func(_ *world, d *dispatch.Decided) { d.Proposal.Caller.OnBehalfOf = access.User("mallory") },
	"tool":         func(w *world, d *dispatch.Decided) { w.upgrade(func(t *tool.Descriptor) { t.Name = "fs.read2" }, d) },
	"tool_definition_digest": func(w *world, d *dispatch.Decided) {
		w.upgrade(func(t *tool.Descriptor) { t.Description = "reads, and sends it away" }, d)
	},
	"arguments":       func(_ *world, d *dispatch.Decided) { d.Proposal.Input = json.RawMessage(`{"path":"b"}`) },
	"cwd":             binding(func(b *tool.Binding) { b.Cwd = "default:sub" }),
	"argv":            binding(func(b *tool.Binding) { b.Argv = []string{"cat", "a", "b"} }),
	"environment":     binding(func(b *tool.Binding) { b.Environment = []string{"LANG=C", "LD_PRELOAD=x"} }),
	"executable":      binding(func(b *tool.Binding) { b.Executable.SHA256 = "sha256:evil" }),
	"operands":        binding(func(b *tool.Binding) { b.Operands = []tool.Operand{{Path: "a", SHA256: "sha256:edited"}} }),
	"sandbox_profile": binding(func(b *tool.Binding) { b.SandboxProfile = "none" }),
	"egress":          binding(func(b *tool.Binding) { b.Egress = []string{"allowlist", "example.org:443"} }),
	"parsed":          binding(func(b *tool.Binding) { b.Parsed = "sha256:another" }),
	"elsewhere":       binding(func(b *tool.Binding) { b.Elsewhere = true }),
}

func binding(fn func(*tool.Binding)) func(*world, *dispatch.Decided) {
	return func(w *world, _ *dispatch.Decided) {
		w.tool.Change(func(p *gatewaytest.Probe) { fn(&p.Found.Binding) })
	}
}

// upgrade installs a router with another definition of the tool.
func (w *world) upgrade(fn func(*tool.Descriptor), d *dispatch.Decided) {
	fn(&w.tool.Of)
	d.Proposal.Tool = w.tool.Of
	next, err := dispatch.New(dispatch.Config{
		Tools: []tool.Runnable{w.tool}, Timeout: time.Minute, Snapshot: func() string { return w.snapshot.Load().(string) },
	})
	if err != nil {
		panic(err)
	}
	w.Router = next
}

// A call that differs from the decided one in any bound field does not run. The report names
// the field, and the permit is consumed.
func TestAnyBoundFieldThatChangedRefuses(t *testing.T) {
	t.Parallel()
	for _, field := range tool.BindingFields {
		t.Run(field, func(t *testing.T) {
			flip, ok := flips[field]
			if !ok {
				t.Fatalf("no flip for the bound field %s", field)
			}
			w := newWorld(t)
			was := w.Router
			d := w.decide(t, w.proposal(t))
			flipped := *d
			flip(w, &flipped)
			report := w.Run(t.Context(), &flipped)
			wantRefused(t, field, w, report, reason.BindingMismatch)
			if !strings.HasSuffix(report.Message, ": "+strings.Join(also(field), ", ")) {
				t.Errorf("the message %q does not name %s and nothing else", report.Message, field)
			}
			if !spent(d) {
				t.Error("the permit survived")
			}
			// Control: if decided in its current form, the changed call runs.
			if w.Router != was {
				flipped.Proposal.Tool = w.tool.Of
			}
			if report := w.Run(t.Context(), w.decide(t, flipped.Proposal)); report.Outcome != tool.Succeeded {
				t.Errorf("the control: %+v", report)
			}
		})
	}
	if len(flips) != len(tool.BindingFields) {
		t.Errorf("%d flips for %d bound fields", len(flips), len(tool.BindingFields))
	}
}

// also lists the fields that change together with one: a renamed tool has another definition.
func also(field string) []string {
	if field == "tool" {
		return []string{"tool", "tool_definition_digest"}
	}
	return []string{field}
}

func TestAllChangedFieldsAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.decide(t, w.proposal(t))
	for _, field := range []string{"egress", "cwd", "arguments"} {
		flips[field](w, d)
	}
	report := w.Run(t.Context(), d)
	wantRefused(t, "three changes", w, report, reason.BindingMismatch)
	if !strings.HasSuffix(report.Message, ": arguments, cwd, egress") {
		t.Errorf("message %q", report.Message)
	}
}

func TestChangedSnapshotRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.decide(t, w.proposal(t))
	w.snapshot.Store("sha256:other")
	report := w.Run(t.Context(), d)
	wantRefused(t, "another snapshot", w, report, reason.BindingMismatch)
	if !strings.Contains(report.Message, "snapshot_digest") {
		t.Errorf("message %q does not name the snapshot", report.Message)
	}
	if !spent(d) {
		t.Error("the permit survived")
	}
}

func TestPermitOfAnotherProposalRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	mine, theirs := w.decide(t, w.proposal(t)), w.decide(t, w.proposal(t))
	mine.Permit = theirs.Permit
	wantRefused(t, "another's permit", w, w.Run(t.Context(), mine), reason.BindingMismatch)
	if !spent(theirs) {
		t.Error("the permit survived")
	}
}

// A call that can no longer be planned does not run, and its permit is consumed.
func TestFailingPlanConsumesThePermit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		code reason.Code
	}{
		"refused": {reason.Errorf(reason.FileNotFound, "a is gone"), reason.FileNotFound},
		"broken":  {errors.New("disk on fire at /dev/sda"), reason.Internal},
	} {
		w := newWorld(t)
		d := w.decide(t, w.proposal(t))
		w.tool.Change(func(p *gatewaytest.Probe) { p.PlanErr = c.err })
		report := w.Run(t.Context(), d)
		wantRefused(t, name, w, report, c.code)
		if strings.Contains(report.Message, "/dev/sda") {
			t.Errorf("%s: the message shows its cause: %q", name, report.Message)
		}
		w.tool.Change(func(p *gatewaytest.Probe) { p.PlanErr = nil })
		if !spent(d) {
			t.Errorf("%s: the permit survived", name)
		}
		wantRefused(t, name+", tried again", w, w.Run(t.Context(), d), reason.PermitRefused)
		if report := w.Run(t.Context(), w.decide(t, d.Proposal)); report.Outcome != tool.Succeeded {
			t.Errorf("%s: the control: %+v", name, report)
		}
	}
}

// A binding without a digest cannot be compared, so the call does not run.
func TestUnencodableBindingConsumesThePermit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.decide(t, w.proposal(t))
	broken := *d
	broken.Proposal.Input = json.RawMessage(`{"path":`)
	wantRefused(t, "no digest", w, w.Run(t.Context(), &broken), reason.Internal)
	if !spent(d) {
		t.Error("the permit survived")
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tool.Work = func(ctx context.Context, _ tool.Call) tool.Report {
			<-ctx.Done()
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return tool.Report{Outcome: tool.TimedOut, Reason: string(reason.TimedOut)}
			}
			return tool.Report{Outcome: tool.Stopped}
		}
		began := time.Now()
		report := w.Run(t.Context(), w.decide(t, w.proposal(t)))
		if report.Outcome != tool.TimedOut || report.Reason != string(reason.TimedOut) || time.Since(began) != time.Minute {
			t.Errorf("after %s: %+v", time.Since(began), report)
		}
	})
}

func TestReadyIsCheckedLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.decide(t, w.proposal(t))
	d.Ready = func(context.Context) error { return reason.Errorf(reason.ApprovalRevoked, "taken back") }
	wantRefused(t, "taken back", w, w.Run(t.Context(), d), reason.ApprovalRevoked)
	d = w.decide(t, w.proposal(t))
	d.Ready = func(context.Context) error {
		if n := w.InFlight(); n != 1 {
			t.Errorf("%d calls in flight when asked", n)
		}
		return nil
	}
	if report := w.Run(t.Context(), d); report.Outcome != tool.Succeeded {
		t.Errorf("the control: %+v", report)
	}
}

func TestCancelledCallDoesNotStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d := w.decide(t, w.proposal(t))
	wantRefused(t, "cancelled", w, w.Run(ctx, d), reason.Cancelled)
	if !spent(d) {
		t.Error("the permit survived")
	}
}

// A tool that panics does not stop the daemon, and its call still has a report.
func TestPanicIsAFailure(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newLoggingWorld(t, &log)
	w.tool.Work = func(context.Context, tool.Call) tool.Report { panic("secret detail") }
	report := w.Run(t.Context(), w.decide(t, w.proposal(t)))
	if report.Outcome != tool.Failed || report.Reason != string(reason.Internal) || report.FinishedAt.IsZero() {
		t.Errorf("got %+v", report)
	}
	if strings.Contains(report.Message, "secret detail") {
		t.Errorf("the report shows the fault: %q", report.Message)
	}
	if !strings.Contains(log.String(), "secret detail") || !strings.Contains(log.String(), "router_test.go") {
		t.Errorf("the log lacks the fault or the place: %s", log.String())
	}
	if n := w.InFlight(); n != 0 {
		t.Errorf("%d calls in flight afterwards", n)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		name, input, canonical string
		code                   reason.Code
	}{
		{"fs.read", `{"path": "a" }`, `{"path":"a"}`, ""},
		{"fs.read", `{"limit":1e0,"path":"a"}`, `{"limit":1,"path":"a"}`, ""},
		{"fs.read", ``, "", reason.InvalidInput},
		{"fs.read", `{"path":"a","extra":1}`, "", reason.InvalidInput},
		{"fs.read", `{"path":1}`, "", reason.InvalidInput},
		{"fs.read", `{"path":"a","path":"b"}`, "", reason.DuplicateKey},
		{"fs.raed", `{}`, "", reason.UnknownTool},
		{"", `{}`, "", reason.UnknownTool},
	} {
		_, canonical, err := w.Check(c.name, []byte(c.input))
		if reason.Of(err) != c.code || string(canonical) != c.canonical {
			t.Errorf("%s %s: %s, %v", c.name, c.input, canonical, err)
		}
	}
}

func TestUnknownToolSuggests(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, hint := range map[string]string{"fs.raed": `"fs.read"`, "fs.reads": `"fs.read"`, "quite.else": "palyra tools"} {
		_, _, err := w.Check(name, nil)
		var known *reason.Error
		if !errors.As(err, &known) || known.Code != reason.UnknownTool || !strings.Contains(known.NextStep(), hint) {
			t.Errorf("%s: %v, %q", name, err, known.NextStep())
		}
	}
	p := w.proposal(t)
	p.Tool.Name = "fs.raed"
	if _, err := w.Plan(t.Context(), p); reason.Of(err) != reason.UnknownTool {
		t.Errorf("planning an unknown tool: %v", err)
	}
	d := w.decide(t, w.proposal(t))
	d.Proposal.Tool.Name = "fs.raed"
	wantRefused(t, "an unknown tool", w, w.Run(t.Context(), d), reason.UnknownTool)
	if !spent(d) {
		t.Error("the permit survived")
	}
}

func TestNewRefusesBadTools(t *testing.T) {
	t.Parallel()
	twin := newProbe()
	broken := newProbe()
	broken.Of.InputSchema = json.RawMessage(`{"type":"array"}`)
	noJSON := newProbe()
	noJSON.Of.InputSchema = json.RawMessage(`{`)
	snapshot := func() string { return snapshotNow }
	for name, c := range map[string]struct {
		cfg  dispatch.Config
		says string
	}{
		"two of a name":  {dispatch.Config{Tools: []tool.Runnable{newProbe(), twin}, Snapshot: snapshot, Timeout: time.Second}, `"fs.read"`},
		"a bad schema":   {dispatch.Config{Tools: []tool.Runnable{broken}, Snapshot: snapshot, Timeout: time.Second}, `"fs.read"`},
		"no JSON":        {dispatch.Config{Tools: []tool.Runnable{noJSON}, Snapshot: snapshot, Timeout: time.Second}, `"fs.read"`},
		"no snapshot":    {dispatch.Config{Timeout: time.Second}, "snapshot"},
		"no timeout":     {dispatch.Config{Snapshot: snapshot}, "timeout"},
		"a past timeout": {dispatch.Config{Snapshot: snapshot, Timeout: -1}, "timeout"},
	} {
		if _, err := dispatch.New(c.cfg); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDescriptorsAreSorted(t *testing.T) {
	t.Parallel()
	a, b := newProbe(), newProbe()
	b.Of.Name = "a.first"
	r := router(t, dispatch.Config{Tools: []tool.Runnable{a, b}, Snapshot: func() string { return snapshotNow }, Timeout: time.Second})
	var names []string
	for _, d := range r.Descriptors() {
		names = append(names, d.Name)
	}
	if !slices.Equal(names, []string{"a.first", "fs.read"}) {
		t.Errorf("got %v", names)
	}
}
