//go:build palyrainit

package gateway

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/canonical"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/gateway/doctor"
	"palyra/internal/surface/api"
)

// The tests of this file run programs in bubblewrap, through the whole daemon. Calls of
// sensitive tools run without an approval; commits of protected files still require one.

// governed is a daemon with one workspace.
type governed struct {
	*running
	dir string
	// asked is called when an approval is pending, and returns the approver's vote.
	asked  func(*palyrav1.Approval) bool
	prompt *palyrav1.ApprovalPrompt
}

func startGoverned(t *testing.T, change func(*config.Config)) *governed {
	t.Helper()
	needs.Sandbox(t)
	cfg := testConfig(t)
	cfg.ProcessRunner.Enabled, cfg.AllowSensitiveTools = true, true
	cfg.Approvals.Cooldown = 0
	cfg.Workspaces = []config.Workspace{workspaceAt(t)}
	if change != nil {
		change(cfg)
	}
	g := &governed{dir: cfg.Workspaces[0].Path}
	g.write("source.txt", "new\n")
	g.write("sub/kept.txt", "old\n")
	for name, content := range map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n", "objects/pack/keep": "", "refs/heads/main": ""} {
		g.write(".git/"+name, content)
	}
	g.running = start(t, cfg)
	t.Cleanup(g.end)
	if s := g.status().GetSandbox(); !s.GetAvailable() || !slices.Contains(s.GetLayers(), "copy_on_write") {
		t.Fatalf("these tests need bubblewrap and user namespaces (apt-get install bubblewrap): %v", s)
	}
	return g
}

func (g *governed) write(name, content string) {
	full := filepath.Join(g.dir, name)
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		panic(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		panic(err)
	}
}

// tree lists the content of the workspace, with modes and contents.
func (g *governed) tree() string {
	g.t.Helper()
	var all []string
	must.Do(g.t, filepath.WalkDir(g.dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		line := strings.TrimPrefix(name, g.dir) + " " + info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			line += " " + canonical.Digest(content)
		}
		all = append(all, line)
		return nil
	}))
	return strings.Join(all, "\n")
}

// ran is the outcome of a call.
type ran struct {
	*palyrav1.ToolResult
	result struct {
		ExitCode *int `json:"exit_code"`
		Changes  *struct {
			State   string `json:"state"`
			Message string `json:"message"`
			Diff    string `json:"diff"`
		} `json:"changes"`
	}
	attested string
}

// call runs one program, and answers its approval requests.
func (g *governed) call(in map[string]any) ran {
	g.t.Helper()
	text := must.Get(json.Marshal(in))(g.t)
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(g.client(), g.url()).CallTool(g.t.Context(), &palyrav1.CallToolRequest{Tool: "process.run", InputJson: text}))(g.t)
	var r ran
	for stream.Receive() {
		switch e := stream.Msg().GetEvent().(type) {
		case *palyrav1.CallToolResponse_ApprovalRequested:
			g.answer(e.ApprovalRequested.GetApproval())
		case *palyrav1.CallToolResponse_Result:
			r.ToolResult = e.Result
		case *palyrav1.CallToolResponse_Attestation:
			var envelope struct {
				Payload []byte `json:"payload"`
			}
			must.Do(g.t, json.Unmarshal(e.Attestation.GetEnvelopeJson(), &envelope))
			r.attested = string(envelope.Payload)
		}
	}
	if err := stream.Close(); err != nil || stream.Err() != nil || r.ToolResult == nil {
		g.t.Fatalf("the call came to %v, %v, %v", r.ToolResult, err, stream.Err())
	}
	must.Do(g.t, json.Unmarshal(r.GetResultJson(), &r.result))
	return r
}

func (g *governed) answer(a *palyrav1.Approval) {
	g.t.Helper()
	g.prompt = a.GetPrompt()
	if g.asked == nil {
		g.t.Fatalf("nobody should be asked: %v", a.GetPrompt())
	}
	decision := &palyrav1.DecideApprovalRequest{ApprovalId: a.GetApprovalId(), ShownDigest: a.GetCallDigest()}
	if decision.Allow = g.asked(a); !decision.Allow {
		decision.Reason = "not today"
	}
	must.Get(palyrav1connect.NewApprovalsServiceClient(g.client(), g.url()).DecideApproval(g.t.Context(), decision))(g.t)
}

func (g *governed) want(r ran, outcome, why, state string) {
	g.t.Helper()
	got := ""
	if r.result.Changes != nil {
		got = r.result.Changes.State
	}
	if r.GetOutcome() != outcome || r.GetReason() != why || got != state {
		g.t.Errorf("the call ended with %s, %s (%s), changes %q; want %s, %s, %q", r.GetOutcome(), r.GetReason(), r.GetMessage(), got, outcome, why, state)
	}
	if state != "" && !strings.Contains(r.attested, `"`+state+`"`) {
		g.t.Errorf("the attestation does not say %s: %s", state, r.attested)
	}
}

// install returns a call that copies a file to a path and creates its directories.
func install(to string) map[string]any {
	return map[string]any{"argv": []string{"install", "-D", "-m", "755", "source.txt", to}}
}

func TestOrdinaryChangesAreCommitted(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, nil)
	g.want(g.call(install("sub/made/here.txt")), "succeeded", "", "committed")
	if text, err := os.ReadFile(filepath.Join(g.dir, "sub/made/here.txt")); err != nil || string(text) != "new\n" {
		t.Errorf("the file is %q, %v", text, err)
	}
	g.want(g.call(map[string]any{"argv": []string{"true"}}), "succeeded", "", "unchanged")
	r := g.call(map[string]any{"argv": []string{"rm", "sub/kept.txt", "nothere"}})
	g.want(r, "succeeded", "", "committed")
	if _, err := os.Stat(filepath.Join(g.dir, "sub/kept.txt")); err == nil || r.result.ExitCode == nil || *r.result.ExitCode != 1 {
		t.Errorf("what a program did before it failed is committed, too: %v, exit %v", err, r.result.ExitCode)
	}
}

// TestProtectedChangesEndAtTheGate: the workspace does not change before a person allows the
// commit, and stays unchanged after a denial.
func TestProtectedChangesEndAtTheGate(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, nil)
	before := g.tree()
	for _, name := range []string{".git/hooks/pre-commit", ".mcp.json"} {
		for _, allow := range []bool{false, true} {
			during := ""
			g.asked = func(*palyrav1.Approval) bool { during = g.tree(); return allow }
			r := g.call(install(name))
			if during != before {
				t.Errorf("%s: the workspace changed before anybody allowed it:\n%s", name, during)
			}
			if p := g.prompt; !strings.Contains(p.GetDiff(), name) || !strings.Contains(p.GetDiff(), "# protected: ") {
				t.Errorf("%s: the prompt shows %v", name, p)
			}
			if !allow {
				g.want(r, "failed", "APPROVAL_DENIED", "discarded")
				if g.tree() != before {
					t.Errorf("%s: a change that was denied is in the workspace", name)
				}
				continue
			}
			g.want(r, "succeeded", "", "committed")
			if g.tree() == before {
				t.Errorf("%s: a change that was allowed is not in the workspace", name)
			}
		}
		before = g.tree()
	}
	// Control: the files that git writes require no approval.
	g.asked = nil
	g.want(g.call(install(".git/objects/ab/cdef")), "succeeded", "", "committed")
}

func TestDryRunChangesNothing(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, nil)
	before := g.tree()
	in := install(".git/hooks/pre-commit")
	in["dry_run"] = true
	r := g.call(in)
	g.want(r, "succeeded", "", "dry_run")
	if g.tree() != before || !strings.Contains(r.result.Changes.Diff, "pre-commit") {
		t.Errorf("diff %q", r.result.Changes.Diff)
	}
}

// TestAConflictOverwritesNothing: the workspace changes while the approval is pending.
func TestAConflictOverwritesNothing(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, nil)
	g.write(".mcp.json", "{}\n")
	g.asked = func(*palyrav1.Approval) bool { g.write(".mcp.json", "somebody else\n"); return true }
	r := g.call(install(".mcp.json"))
	g.want(r, "failed", "COMMIT_CONFLICT", "conflicted")
	if text, err := os.ReadFile(filepath.Join(g.dir, ".mcp.json")); err != nil || string(text) != "somebody else\n" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// TestDirectModeHasNoGate: direct mode writes to the workspace immediately, and the attestation
// names the mode.
func TestDirectModeHasNoGate(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, func(c *config.Config) { c.Workspaces[0].Mode = config.ModeDirect })
	r := g.call(install("sub/made.txt"))
	g.want(r, "succeeded", "", "")
	if _, err := os.Stat(filepath.Join(g.dir, "sub/made.txt")); err != nil || !strings.Contains(r.attested, `"direct"`) {
		t.Errorf("%v, attested %s", err, r.attested)
	}
}

// TestAStoppedProgramCommitsNothing: the files that a program wrote before its deadline are
// discarded.
func TestAStoppedProgramCommitsNothing(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, nil)
	before := g.tree()
	// A write of one byte at a time neither fills the disk nor reaches a limit before the
	// deadline.
	r := g.call(map[string]any{"argv": []string{"dd", "if=/dev/zero", "of=piece", "bs=1"}, "timeout_ms": 2000})
	g.want(r, "timed_out", "TIMED_OUT", "discarded")
	if g.tree() != before {
		t.Errorf("the workspace is not what it was:\n%s", g.tree())
	}
}

// TestCachesLastFromRunToRun: a build tool finds the caches of the previous run without a
// commit. Other workspaces have other caches.
func TestCachesLastFromRunToRun(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{true, false} {
		g := startGoverned(t, func(c *config.Config) {
			if kept {
				c.ProcessRunner.Caches = []string{"go"}
			}
		})
		if r := g.call(map[string]any{"argv": []string{"printenv", "GOCACHE"}}); (*r.result.ExitCode == 0) != kept {
			t.Errorf("kept %t: GOCACHE is set: %s", kept, r.GetResultJson())
		}
		g.want(g.call(map[string]any{"argv": []string{"touch", "/cache/go/left"}}), "succeeded", "", "unchanged")
		if r := g.call(map[string]any{"argv": []string{"ls", "/cache/go/left"}}); (*r.result.ExitCode == 0) != kept {
			t.Errorf("kept %t: %s", kept, r.GetResultJson())
		}
	}
}

// TestDoctorExaminesEachLayer: the doctor tries every layer of a run with and without the
// layer. It needs no daemon and leaves no files.
//
// Not parallel: it sets TMPDIR of the process.
func TestDoctorExaminesEachLayer(t *testing.T) {
	needs.Sandbox(t)
	cfg := testConfig(t)
	cfg.ProcessRunner.Enabled = true
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	exams := make(map[string]doctor.Check)
	for _, e := range doctor.Examine(t.Context(), examined(cfg)) {
		exams[e.Name] = e
	}
	if e := exams["sandbox"]; e.Result == doctor.Failed || !strings.Contains(e.Detail, "Tier C (full)") {
		t.Fatalf("sandbox: %+v", e)
	}
	for _, layer := range []string{"user_namespace", "network_namespace", "no_capabilities", "no_new_privs", "seccomp", "landlock", "copy_on_write", "minimal_root"} {
		if e := exams["layer: "+layer]; e.Result != doctor.OK {
			t.Errorf("%s: %+v", layer, e)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the doctor left %v, %v", left, err)
	}
	// A required layer that the sandbox never has is a failure.
	cfg.ProcessRunner.RequiredLayers = []string{"seatbelt_files"}
	for _, e := range doctor.Examine(t.Context(), examined(cfg)) {
		if e.Name == "sandbox" && (e.Result != doctor.Failed || !strings.Contains(e.Detail, "contains inactive layers: seatbelt_files")) {
			t.Errorf("%+v", e)
		}
	}
}

// TestRequiredLayerRefuses: a call is refused if the machine lacks a required layer, and no
// program runs.
func TestRequiredLayerRefuses(t *testing.T) {
	t.Parallel()
	g := startGoverned(t, func(c *config.Config) { c.ProcessRunner.RequiredLayers = []string{"seatbelt_files"} })
	before := g.tree()
	stream := must.Get(palyrav1connect.NewGatewayServiceClient(g.client(), g.url()).CallTool(t.Context(),
		&palyrav1.CallToolRequest{Tool: "process.run", InputJson: []byte(`{"argv":["touch","made"]}`)}))(t)
	for stream.Receive() {
	}
	if err := api.ReasonOf(stream.Err()); reason.Of(err) != reason.SandboxUnavailable || g.tree() != before {
		t.Errorf("the call came to %v", err)
	}
	must.Check(t, stream.Close())
}
