package dispatch_test

import (
	"context"
	"strings"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/gateway/gatewaytest"
)

// TestFactsAreBound: a call whose facts differ from the ones that policy evaluated does not
// start, even if an approval would cover it. The report names the fact.
func TestFactsAreBound(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*gatewaytest.Probe)
		want   string
	}{
		"path":     {func(p *gatewaytest.Probe) { p.Found.Facts.Path = "b" }, "path, path_folded"},
		"spelling": {func(p *gatewaytest.Probe) { p.Found.Facts.Path = "A" }, "path"},
		"links":    {func(p *gatewaytest.Probe) { p.Found.Facts.HardLinks = 2 }, "hard_links"},
		"exec":     {func(p *gatewaytest.Probe) { p.Found.Facts.Exec = &tool.ExecFacts{Basename: "sh"} }, "exec"},
		"paths":    {func(p *gatewaytest.Probe) { p.Found.Facts.Paths = []string{"a", "b"} }, "paths"},
		"file":     {func(p *gatewaytest.Probe) { p.Found.Files = []tool.FileIdentity{{Inode: 2}} }, "file"},
		"edited":   {func(p *gatewaytest.Probe) { p.Found.Files = []tool.FileIdentity{{Inode: 1, ChangedAt: 1}} }, "file"},
		"nothing":  {func(*gatewaytest.Probe) {}, ""}, // the control
		"a digest": {func(p *gatewaytest.Probe) { p.Found.Binding.Operands = []tool.Operand{{Path: "a", SHA256: "sha256:b"}} }, "operands"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tool.Found.Facts, w.tool.Found.Files = tool.Facts{Path: "a"}, []tool.FileIdentity{{Inode: 1}}
			d := w.decide(t, w.proposal(t))
			w.tool.Change(c.change)
			report := w.Run(t.Context(), d)
			if c.want == "" {
				if report.Outcome != tool.Succeeded {
					t.Fatalf("%+v", report)
				}
			} else if report.Outcome != tool.Refused || report.Reason != string(reason.BindingMismatch) || !strings.HasSuffix(report.Message, ": "+c.want) {
				t.Errorf("%+v", report)
			}
			if ran := w.tool.Runs.Load() == 1; ran != (c.want == "") {
				t.Errorf("it ran: %t", ran)
			}
			if w.tool.Closed.Load() != 1 || !spent(d) {
				t.Errorf("closed %d times, the permit is spent: %t", w.tool.Closed.Load(), spent(d))
			}
		})
	}
}

// TestSandboxIsReevaluated: if the sandbox differs from the one that policy evaluated, policy
// decides again; without approvers, the call does not start.
func TestSandboxIsReevaluated(t *testing.T) {
	t.Parallel()
	no := reason.Errorf(reason.BindingMismatch, "not on this machine")
	for name, c := range map[string]struct {
		rejudge func(tool.Facts) error
		starts  bool
	}{
		"allowed": {func(tool.Facts) error { return nil }, true},
		"refused": {func(tool.Facts) error { return no }, false},
		"nobody":  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			d := w.decide(t, w.proposal(t))
			asked := 0
			if c.rejudge != nil {
				d.Rejudge = func(now tool.Facts) error {
					asked++
					if now.SandboxRung != "landlock" {
						t.Errorf("asked about %+v", now)
					}
					return c.rejudge(now)
				}
			}
			w.tool.Change(func(p *gatewaytest.Probe) { p.Found.Facts.SandboxRung = "landlock" })
			if report := w.Run(t.Context(), d); (report.Outcome == tool.Succeeded) != c.starts {
				t.Errorf("%+v", report)
			}
			if c.rejudge != nil && asked != 1 {
				t.Errorf("asked %d times", asked)
			}
		})
	}
}

// TestHeldResourcesAreReleased: resources are also released if the tool panics, and if the call
// is refused after its preparation.
func TestHeldResourcesAreReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tool.Work = func(context.Context, tool.Call) tool.Report { panic("a fault") }
	w.Run(t.Context(), w.decide(t, w.proposal(t)))
	d := w.decide(t, w.proposal(t))
	w.Freeze()
	w.Run(t.Context(), d)
	if got := w.tool.Closed.Load(); got != 2 {
		t.Errorf("let go %d times of 2", got)
	}
}
