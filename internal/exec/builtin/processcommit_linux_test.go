package builtin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace/overlay"
)

// gate is a commit gate that records its requests.
type gate struct {
	asked  []tool.CommitRequest
	ruling tool.CommitRuling
	err    error
	// during runs while the approval is pending.
	during func()
}

func (g *gate) commit(_ context.Context, r tool.CommitRequest) (tool.CommitRuling, error) {
	g.asked = append(g.asked, r)
	if g.during != nil {
		g.during()
	}
	return g.ruling, g.err
}

// copies is a bench whose fake sandbox gives runs a real layer. The "program" writes into the
// layer like an overlay would.
type copies struct {
	*bench
	gate   *gate
	runner *runner
	// writes makes the program's changes below the directory upper.
	writes  func(upper string)
	holder  string
	history overlay.History
}

func newCopies(t *testing.T, change ...func(*Config)) *copies {
	t.Helper()
	c := &copies{gate: &gate{ruling: tool.CommitRuling{Allowed: true, ApprovalID: "a-1", GrantID: "g-1"}}, holder: t.TempDir(), history: overlay.History{Dir: t.TempDir()}}
	c.bench, c.runner, _ = processBench(t, func(cfg *Config) {
		cfg.Process.History = c.history
		for _, fn := range change {
			fn(cfg)
		}
	})
	c.bench.write("kept.txt", "old\n")
	c.runner.layer = func() *overlay.Layer {
		layer := must.Get(overlay.New(overlay.Config{Root: c.dir, Name: "default", Dir: c.holder, UID: -1, GID: -1}))(t)
		if c.writes != nil {
			c.writes(layer.Upper().Name())
		}
		return layer
	}
	return c
}

// put writes a file into a layer.
func put(t *testing.T, upper, name, content string) {
	t.Helper()
	full := filepath.Join(upper, name)
	must.Do(t, os.MkdirAll(filepath.Dir(full), 0o755))
	must.Do(t, os.WriteFile(full, []byte(content), 0o644))
}

// run runs a program with the gate.
func (c *copies) run(ctx context.Context, in object) (tool.Report, map[string]any) {
	c.t.Helper()
	if in["argv"] == nil {
		in["argv"] = []string{"git"}
	}
	p := must.Get(c.propose("process.run", in))(c.t)
	p.ID = "01CALL"
	plan := must.Get(c.tools["process.run"].Plan(ctx, p))(c.t)
	report := c.bench.run(ctx, tool.Call{Proposal: p, Plan: plan, Commit: c.gate.commit})
	if left, err := os.ReadDir(c.holder); err != nil || len(left) != 0 {
		c.t.Errorf("the layer was left behind: %v, %v", left, err)
	}
	return report, c.result(report)
}

func TestChangesAreCommitted(t *testing.T) {
	t.Parallel()
	c := newCopies(t)
	c.runner.report.ExitCode = exit(2)
	c.writes = func(upper string) { put(t, upper, "kept.txt", "new\n"); put(t, upper, "sub/made.txt", "made\n") }
	report, result := c.run(t.Context(), object{})
	if report.Outcome != tool.Succeeded || c.read("kept.txt") != "new\n" || c.read("sub/made.txt") != "made\n" {
		t.Fatalf("%+v", report)
	}
	asked := c.gate.asked[0]
	if f := asked.Facts; f.Workspace != "default" || f.Added != 2 || f.Modified != 1 || f.Deleted != 0 || f.Bytes != 9 || f.ExitCode != 2 || len(f.Protected) != 0 {
		t.Errorf("facts %+v", f)
	}
	if p := asked.Preview; !strings.Contains(p.Summary, "2 added, 1 modified, 0 deleted, 0 of them protected") || !strings.Contains(p.Diff, "-old\n+new\n") ||
		len(p.Notes) != 0 || len(asked.Files) != 3 { // the pipeline derives the notes from the facts
		t.Errorf("request %+v", asked)
	}
	if ch := report.Changes; ch.State != tool.Committed || ch.Root != asked.Facts.Root || ch.ApprovalID != "a-1" || ch.GrantID != "g-1" || ch.Modified != 1 || len(report.Files) != 3 {
		t.Errorf("record %+v, files %v", ch, report.Files)
	}
	shown := result["changes"].(object)
	if shown["state"] != "committed" || shown["added"] != 2.0 || len(shown["files"].([]any)) != 3 || result["exit_code"] != 2.0 {
		t.Errorf("result %v", shown)
	}
	if kept, err := c.history.List("default"); err != nil || len(kept) != 1 || kept[0].CallID != "01CALL" || !kept[0].Undoable() {
		t.Errorf("the history has %+v, %v", kept, err)
	}
}

// TestChangesStayOut: for every reason that prevents a commit, the workspace is unchanged, the
// reason is reported, and the program's output is kept.
func TestChangesStayOut(t *testing.T) {
	t.Parallel()
	refusal := func(code reason.Code) func(*copies) {
		return func(c *copies) {
			c.gate.ruling = tool.CommitRuling{Reason: string(code), Message: "the hook is not wanted", Remedy: "Leave it."}
		}
	}
	for _, row := range []struct {
		name    string
		harm    func(c *copies)
		in      object
		outcome tool.Outcome
		reason  reason.Code
		state   tool.ChangeState
		asked   int
	}{
		{"no", refusal(""), object{}, tool.Failed, reason.CommitRefused, tool.Discarded, 1},
		{"denied", refusal(reason.ApprovalDenied), object{}, tool.Failed, reason.ApprovalDenied, tool.Discarded, 1},
		{"unanswered", refusal(reason.ApprovalExpired), object{}, tool.Failed, reason.ApprovalExpired, tool.Discarded, 1},
		{"the gate failed", func(c *copies) { c.gate.err = errors.New("disk full") }, object{}, tool.Failed, reason.Internal, tool.Discarded, 1},
		{"conflict", func(c *copies) { c.gate.during = func() { c.bench.write("kept.txt", "somebody else\n") } }, object{}, tool.Failed, reason.CommitConflict, tool.Conflicted, 1},
		{"dry run", func(*copies) {}, object{"dry_run": true}, tool.Succeeded, "", tool.DryRun, 0},
		{"deadline", func(c *copies) { c.runner.report.TimedOut, c.runner.report.ExitCode = true, nil }, object{}, tool.TimedOut, reason.TimedOut, tool.Discarded, 0},
		{"quota", func(c *copies) { c.runner.report.Quota, c.runner.report.ExitCode = sandbox.QuotaDisk, nil }, object{}, tool.Failed, reason.QuotaExceeded, tool.Discarded, 0},
		{"a FIFO", func(c *copies) { c.writes = func(upper string) { fifo(t, filepath.Join(upper, "pipe")) } }, object{}, tool.Failed, reason.CommitRefused, tool.Discarded, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := newCopies(t)
			c.runner.report.Stdout = sandbox.Stream{Head: []byte("said\n"), Total: 5}
			c.writes = func(upper string) {
				put(t, upper, "kept.txt", "new\n")
				put(t, upper, ".git/hooks/pre-commit", "#!/bin/sh\n")
			}
			row.harm(c)
			report, result := c.run(t.Context(), row.in)
			if report.Outcome != row.outcome || report.Reason != string(row.reason) || len(c.gate.asked) != row.asked {
				t.Errorf("outcome %s, reason %s (%s), asked %d times", report.Outcome, report.Reason, report.Message, len(c.gate.asked))
			}
			want := "old\n"
			if row.state == tool.Conflicted {
				want = "somebody else\n"
			}
			if _, err := os.Lstat(filepath.Join(c.dir, ".git")); err == nil || c.read("kept.txt") != want {
				t.Error("the workspace is not as it was")
			}
			shown := result["changes"].(object)
			if report.Changes.State != row.state || shown["state"] != string(row.state) || shown["message"] == "" || len(report.Files) != 0 {
				t.Errorf("record %+v, result %v", report.Changes, shown)
			}
			if out := result["stdout"].(object); out["content"] != "said\n" {
				t.Errorf("what the program said is lost: %v", out)
			}
			if row.state == tool.DryRun && !strings.Contains(shown["diff"].(string), "# protected: .git/hooks/pre-commit (git)") {
				t.Errorf("diff %v", shown["diff"])
			}
		})
	}
}

// TestProtectedChangesAreNamed: the preview lists the protected changes and their reasons
// first.
func TestProtectedChangesAreNamed(t *testing.T) {
	t.Parallel()
	c := newCopies(t)
	c.gate.ruling = tool.CommitRuling{}
	c.writes = func(upper string) { put(t, upper, "a.txt", "x"); put(t, upper, ".mcp.json", "{}\n") }
	_, result := c.run(t.Context(), object{})
	asked := c.gate.asked[0]
	if f := asked.Facts; len(f.Protected) != 1 || f.Protected[0] != ".mcp.json" || len(f.Classes) != 1 || f.Classes[0] != "agent" {
		t.Errorf("facts %+v", f)
	}
	if !strings.HasPrefix(asked.Preview.Diff, "# protected: .mcp.json (agent)\n") || !strings.HasSuffix(asked.Preview.Summary, "1 of them protected.") {
		t.Errorf("preview %+v", asked.Preview)
	}
	if first := result["changes"].(object)["files"].([]any)[0].(object); first["path"] != ".mcp.json" || first["protected"].([]any)[0] != "agent" {
		t.Errorf("files %v", first)
	}
}

// TestNobodyToAsk: without a gate no changes are committed. Without changes no gate is needed.
func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	c := newCopies(t)
	report, result := c.bench.call(t.Context(), "process.run", object{"argv": []string{"git"}})
	if report.Outcome != tool.Succeeded || report.Changes.State != tool.Unchanged || result["changes"].(object)["state"] != "unchanged" {
		t.Errorf("nothing changed: %+v", report.Changes)
	}
	c.writes = func(upper string) { put(t, upper, "kept.txt", "new\n") }
	report, _ = c.bench.call(t.Context(), "process.run", object{"argv": []string{"git"}})
	if report.Reason != string(reason.CommitRefused) || report.Changes.State != tool.Discarded || c.read("kept.txt") != "old\n" {
		t.Errorf("with nobody to ask: %+v", report)
	}
}

// TestSlotIsFreedWithTheProgram: a pending approval of changes does not prevent other programs from
// running.
func TestSlotIsFreedWithTheProgram(t *testing.T) {
	t.Parallel()
	c := newCopies(t, func(cfg *Config) { cfg.Process.Turns = limit.NewQueue(1, 100) })
	c.writes = func(upper string) { put(t, upper, "kept.txt", "new\n") }
	var other tool.Report
	c.gate.during = func() {
		c.writes = nil
		ctx, cancel := context.WithTimeout(t.Context(), must.Patience) // otherwise it would wait forever
		defer cancel()
		other, _ = c.bench.call(ctx, "process.run", object{"argv": []string{"git"}})
	}
	if report, _ := c.run(t.Context(), object{}); report.Outcome != tool.Succeeded || len(c.gate.asked) != 1 {
		t.Errorf("%+v, asked %d times", report, len(c.gate.asked))
	}
	if other.Outcome != tool.Succeeded {
		t.Errorf("at the same time: %+v", other)
	}
}

// TestACancelledRunIsDiscarded: a call that is cancelled while the program runs commits no
// changes. A call that is cancelled after the commit was allowed commits its changes.
func TestACancelledRunIsDiscarded(t *testing.T) {
	t.Parallel()
	for _, allowed := range []bool{false, true} {
		c := newCopies(t)
		ctx, cancel := context.WithCancel(t.Context())
		c.writes = func(upper string) {
			put(t, upper, "kept.txt", "new\n")
			if !allowed {
				cancel()
			}
		}
		c.gate.during = cancel
		report, _ := c.run(ctx, object{})
		want, outcome := "old\n", tool.Stopped
		if allowed {
			want, outcome = "new\n", tool.Succeeded
		}
		if report.Outcome != outcome || c.read("kept.txt") != want {
			t.Errorf("allowed before: %t: %+v", allowed, report)
		}
	}
}

// TestOperandsOfACopy: pinned operands are not checked again after the run; other operands are.
func TestOperandsOfACopy(t *testing.T) {
	t.Parallel()
	for _, unpinned := range []bool{false, true} {
		c := newCopies(t)
		c.bench.write("script", "one")
		c.runner.during = func() { c.bench.write("script", "two") }
		if unpinned {
			c.runner.report.Unpinned = []string{"script"}
		}
		report, _ := c.run(t.Context(), object{"argv": []string{"git", "script"}})
		if len(c.runner.specs[0].Operands) != 1 {
			t.Fatalf("spec %+v", c.runner.specs[0])
		}
		if changed := len(report.Enforcement.Downgrades) > 0; changed != unpinned || (report.Enforcement.Level == sandbox.LevelNone) != unpinned {
			t.Errorf("unpinned %t: %+v", unpinned, report.Enforcement)
		}
	}
}

func fifo(t *testing.T, name string) {
	t.Helper()
	must.Do(t, syscall.Mkfifo(name, 0o600))
}
