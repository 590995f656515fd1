package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
)

var update = flag.Bool("update", false, "write the golden files")

// populate gives the gateway something of everything.
func (w *world) populate() {
	g := w.gateway
	g.frozen = nil
	g.runs.listed = olderRuns()
	g.approvals[approvalID] = someApproval()
	old := someApproval()
	old.ApprovalId, old.State, old.AnsweredAt = "01APPROVA00000000000000000", palyrav1.ApprovalState_APPROVAL_STATE_CONSUMED, timestamppb.New(testNow.Add(-time.Minute))
	old.Severity, old.Missing = "low", ""
	g.approvals[old.ApprovalId] = old
	g.grants["01GRANT0000000000000000000"] = &palyrav1.Grant{
		GrantId: "01GRANT0000000000000000000", ApprovalId: approvalID, Scope: palyrav1.ApprovalScope_APPROVAL_SCOPE_TIMEBOXED,
		Match: palyrav1.GrantMatch_GRANT_MATCH_SUBJECT, Tool: "process.run", Subject: "process.run:/usr/bin/git@demo", Principal: "agent:claude",
		Session: "default", Approvers: []string{"user:ada"}, CreatedAt: timestamppb.New(testNow.Add(-time.Hour)), ExpiresAt: timestamppb.New(testNow.Add(90 * time.Minute)),
		Uses: 3, LastUsedAt: timestamppb.New(testNow.Add(-time.Minute)),
	}
	g.devices = []*palyrav1.Device{{DeviceId: "01DEVICE000000000000000000", Principal: "user:ada", Name: "laptop", CreatedAt: timestamppb.New(testNow), CertificateExpiresAt: timestamppb.New(testNow.Add(time.Hour))}}
	g.changeSets = someChangeSets()
	g.tools = []*palyrav1.Tool{{
		Name: "process.run", Title: "Run a program", Description: "Runs a program in a sandbox.\nIt has no network.", InputSchemaJson: []byte(`{"type":"object","properties":{"argv":{"type":"array"}}}`),
		Capabilities: []string{"process_exec"}, Executor: "sandbox_tier_c_linux_bubblewrap", Destructive: true, Sensitive: true, MayAsk: true, DefinitionDigest: "sha256:dd",
	}}
	g.findings = []*palyrav1.PolicyFinding{{
		Severity: "error", Code: "unknown_name", File: "20-exec.cedar", Line: 3, Column: 9, Message: "context.args.pth is not known",
		SourceLine: "  when { context.args.pth == 1 };", Help: "did you mean path?", PolicyId: "exec.git",
	}}
}

// TestGolden compares every listing and page in every format.
func TestGolden(t *testing.T) {
	commands := map[string][]string{
		"approvals_list": {"approvals", "list", "--all"}, "approvals_show": {"approvals", "show", approvalID},
		"grants_list": {"grants", "list"}, "runs_list": {"runs", "list"}, "devices_list": {"devices", "list"}, "members_list": {"members", "list"},
		"tools_list": {"tools", "list"}, "tools_show": {"tools", "show", "process.run"}, "status": {"status"},
		"dry_run": {"call", "process.run", "--dry-run"}, "policy_show": {"policy", "show"}, "policy_file": {"policy", "show", "defaults/10.cedar"},
		"policy_snapshot": {"policy", "snapshot", "sha256:" + strings.Repeat("c", 64)}, "freeze": {"freeze", "--reason", "fire"}, "thaw": {"thaw"},
		"grants_revoke": {"grants", "revoke", "01GRANT0000000000000000000"}, "policy_check": {"policy", "check", "testdata/one.cedar"},
		"policy_explain": {"policy", "explain", "01DECSN0000000000000000000"}, "policy_simulate": {"policy", "simulate", "process.run"},
		"policy_test": {"policy", "test", "testdata/one.test.yaml"}, "policy_versions": {"policy", "versions"},
		"policy_activate": {"policy", "activate", strings.Repeat("b", 12)}, "policy_diff": {"policy", "diff", "sha256:11111111", "sha256:22222222"},
		"policy_old": {"policy", "show", "sha256:11111111"}, "policy_old_file": {"policy", "show", "sha256:11111111", "20-team.cedar"},
		"workspace_list": {"workspace", "list"}, "workspace_changes": {"workspace", "changes"}, "workspace_show": {"workspace", "show", changeSetID},
		"workspace_undo": {"workspace", "undo", changeSetID},
		"sessions_list":  {"sessions", "list"}, "sessions_show": {"sessions", "show", sessionID}, "sessions_end": {"sessions", "end", sessionID, "--reason", "looked"},
		"decide": decideArgs("--deny", "--reason", "no"),
	}
	w := newWorld(t)
	for name, args := range commands {
		out := map[string]string{}
		for _, format := range formats {
			w.populate()
			r := w.run(append(append([]string{}, args...), "-o", format)...)
			out[format] = strings.ReplaceAll(r.out, w.address, "127.0.0.1:7443")
			checkGolden(t, filepath.Join("testdata", "golden", name+"."+format), out[format])
		}
		sameValue(t, name, out[formatJSON], out[formatYAML])
	}
}

func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// sameValue reads both with another YAML reader: YAML 1.2 holds JSON.
func sameValue(t *testing.T, name, asJSON, asYAML string) {
	t.Helper()
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal([]byte(asYAML), &fromYAML); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, asYAML)
	}
	if err := yaml.Unmarshal([]byte(asJSON), &fromJSON); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Errorf("%s: YAML and JSON differ:\n%s", name, diff)
	}
}

// TestTerminalTable: a table fits the terminal, except wide.
func TestTerminalTable(t *testing.T) {
	w := newWorld(t)
	w.populate()
	s := Streams{OutTerminal: true, Width: 80}
	for _, c := range []struct {
		format string
		fits   bool
	}{{"table", true}, {"wide", false}} {
		r := w.with(s, "--no-color", "grants", "list", "-o", c.format)
		w.want(r, 0)
		longest := 0
		for line := range strings.Lines(r.out) {
			longest = max(longest, len([]rune(strings.TrimSuffix(line, "\n"))))
		}
		if (longest <= 80) != c.fits {
			t.Errorf("-o %s has %d columns:\n%s", c.format, longest, r.out)
		}
	}
}

// TestColours: only on a terminal, and only if nothing speaks against them.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		env      map[string]string
		args     []string
		want     bool
	}{
		{"terminal", true, nil, nil, true},
		{"pipe", false, nil, nil, false},
		{"NO_COLOR", true, map[string]string{"NO_COLOR": "1"}, nil, false},
		{"dumb", true, map[string]string{"TERM": "dumb"}, nil, false},
		{"CI", true, map[string]string{"CI": "1"}, nil, false},
		{"flag", true, nil, []string{"--no-color"}, false},
	} {
		w := newWorld(t)
		w.populate()
		for k, v := range c.env {
			w.env[k] = v
		}
		r := w.with(Streams{OutTerminal: c.terminal, ErrTerminal: c.terminal}, append(c.args, "approvals", "list")...)
		if got := strings.Contains(r.out, "\x1b["); got != c.want {
			t.Errorf("%s: colours %v, want %v: %q", c.name, got, c.want, r.out)
		}
		bad := w.with(Streams{ErrTerminal: c.terminal}, append(c.args, "nothing")...)
		if got := strings.Contains(bad.err, "\x1b["); got != c.want {
			t.Errorf("%s: colours in errors %v, want %v: %q", c.name, got, c.want, bad.err)
		}
	}
}
