package hook_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra/internal/call"
	"palyra/internal/call/approval"
	"palyra/internal/call/record"
	"palyra/internal/core/event"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
)

type args map[string]any

// TestReadIsDecidedAndReported: a call that requires no approval is decided, reported and
// attested.
func TestReadIsDecidedAndReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := args{"file_path": filepath.Join(w.ws, "a.go")}
	if a := w.before("t1", "Read", in); a.decision != "allow" || !strings.Contains(a.body, `"permissionDecision":"allow"`) {
		t.Fatalf("the hook was told %+v", a)
	}
	if n := len(w.events(event.Attested)); n != 0 {
		t.Errorf("%d calls were attested before the agent reported", n)
	}
	if a := w.after("t1", "Read", in); a.decision != "none" || a.body != "{}" {
		t.Errorf("the report was answered by %+v", a)
	}
	p := w.report(1)
	if p.Report.Outcome != tool.Succeeded || p.Report.Executor.Name != tool.External || p.Report.Isolation != nil ||
		p.Report.Claim == nil || p.Report.Claim.State != tool.Reported || p.Report.Claim.ResponseBytes == 0 {
		t.Errorf("the report is %+v", p.Report)
	}
	if !strings.Contains(string(p.Envelope), "payload") {
		t.Error("it was not attested")
	}
	if c := w.hooks.Counts(); c.Open != 0 || c.Ungoverned+c.RanOther+c.Late != 0 {
		t.Errorf("counted %+v", c)
	}
}

// TestSensitiveToolsAsk: an approver decides, and the agent is never instructed to ask its own
// user.
func TestSensitiveToolsAsk(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answers func(*approval.Record) approval.Ballot
		want    string
	}{"yes": {yes, "allow"}, "no": {no, "deny"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			stop := w.people(c.answers)
			a := w.before("t1", "Bash", args{"command": "go test ./..."})
			if asked := stop(); len(asked) != 1 || !strings.Contains(asked[0].Prompt.Summary, "go test ./...") {
				t.Errorf("people were asked %+v", asked)
			}
			if a.decision != c.want || strings.Contains(a.body, `"ask"`) || a.status != 200 {
				t.Errorf("the hook was told %+v", a)
			}
			if c.want == "deny" && (!a.says(reason.ApprovalDenied) || len(w.events(event.Attested)) != 0) {
				t.Errorf("the hook was told %+v", a)
			}
		})
	}
}

// TestWhichCallsAsk lists the calls that require approval and those that do not.
func TestWhichCallsAsk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	outside := filepath.Join(w.out, "x")
	must.Do(t, os.Symlink(w.out, filepath.Join(w.ws, "link")))
	stop := w.people(no)
	defer stop()
	for _, c := range []struct {
		id, name string
		input    args
		allowed  bool
	}{
		{"a1", "Read", args{"file_path": filepath.Join(w.ws, "a")}, true},
		{"a2", "Read", args{"file_path": outside}, false},
		{"a3", "Read", args{"file_path": filepath.Join(w.ws, "link", "x")}, false},
		{"a4", "Read", args{"file_path": filepath.Join(w.ws, "..", filepath.Base(w.out), "x")}, false},
		{"a5", "Grep", args{"pattern": "x"}, true},
		{"a6", "Grep", args{"pattern": "x", "path": "/"}, false},
		{"a7", "Edit", args{"file_path": filepath.Join(w.ws, "a"), "old_string": "a", "new_string": "b"}, false},
		{"a8", "TodoWrite", args{"todos": []any{}}, true},
		{"a9", "Agent", args{"prompt": "x"}, true},
		{"b1", "Skill", args{"skill": "x"}, false},
		{"b2", "WebFetch", args{"url": "https://example.org/"}, false},
		{"b3", "mcp__github__read", args{}, false},
		{"b4", "mcp__palyra__fs_read", args{"path": "a"}, false},
		{"b5", "BrandNewTool", args{}, false},
		{"b6", "TaskStop", args{"task_id": "x"}, true},
		{"b7", "Monitor", args{"command": "x"}, false},
	} {
		if a := w.before(c.id, c.name, c.input); (a.decision == "allow") != c.allowed || a.status != 200 {
			t.Errorf("%s %v: %+v", c.name, c.input, a)
		}
	}
}

// TestAgentAsksItsUser: if the agent's tool asks its own user, the hook permits it without a
// decision in the body.
func TestAgentAsksItsUser(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	if a := w.before("t1", "ExitPlanMode", args{"plan": "x"}); a.decision != "allow" || a.body != "{}" {
		t.Errorf("the hook was told %+v", a)
	}
}

// free allows agents everything that no rule forbids.
const free = `@id("free") @reason("free") @waives("approval: the test's own")
permit(principal, action in Action::"tool.execute", resource)
when { context has external && context.sandbox.tier == "external" };
`

// TestGuardedFiles: a call that may change files that control agents or the gateway requires
// approval, and the request names the file. Controls: neighboring files, and calls that only
// read or mention a guarded file.
func TestGuardedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, free)
	stop := w.people(no)
	file := func(path ...string) string { return filepath.Join(append([]string{w.ws}, path...)...) }
	settings, mcp := file(".claude", "settings.json"), file(".mcp.json")
	var want []string
	for i, c := range []struct {
		name  string
		input args
		// guarded is the file that the approval request names; "" if no approval is required.
		guarded string
	}{
		{"Write", args{"file_path": settings, "content": "{}"}, settings},
		{"Write", args{"file_path": file(".claude", "plans", "notes.md"), "content": "{}"}, ""},
		{"Edit", args{"file_path": file(".CLAUDE", "Settings.json"), "old_string": "a", "new_string": "b"}, file(".CLAUDE", "Settings.json")},
		{"Write", args{"file_path": file("sub", ".claude", "hooks", "x"), "content": "{}"}, file("sub", ".claude", "hooks", "x")},
		{"Write", args{"file_path": mcp, "content": "{}"}, mcp},
		{"Write", args{"file_path": filepath.Join(w.out, "state", "x"), "content": ""}, filepath.Join(w.out, "state", "x")},
		{"BrandNewTool", args{"into": ".mcp.json"}, mcp},
		{"Read", args{"file_path": settings}, ""},
	} {
		w.wantGuarded(&want, strconv.Itoa(i), c.name, c.input, c.guarded)
	}
	wantNamed(t, stop(), want)
	stop = w.people(yes)
	defer stop()
	if a := w.before("yes", "Write", args{"file_path": mcp, "content": "{ }"}); a.decision != "allow" {
		t.Errorf("a yes of a person: %+v", a)
	}
}

// TestWorktrees: the files of a git worktree belong to the workspace of their project, both
// below .claude/worktrees and next to the workspace. Controls: the worktree's files that
// control agents, and a neighboring directory that is not a worktree.
func TestWorktrees(t *testing.T) {
	t.Parallel()
	w := newWorld(t, free+`@id("asks") forbid(principal, action in Action::"tool.execute", resource)
when { context has external && !context.external.outside.isEmpty() } unless { context.approval.granted };
`)
	git := func(args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", w.ws, "-c", "user.name=t", "-c", "user.email=t@example.org"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	beside := filepath.Join(w.out, "feature")
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "one")
	git("worktree", "add", "-q", ".claude/worktrees/x")
	git("worktree", "add", "-q", ".worktrees/y")
	git("worktree", "add", "-q", beside)
	stop := w.people(no)
	var want []string
	for i, c := range []struct{ file, guarded string }{
		{filepath.Join(w.ws, ".claude/worktrees/x/src/main.go"), ""},
		{filepath.Join(w.ws, ".worktrees/y/main.go"), ""},
		{filepath.Join(beside, "main.go"), ""},
		{filepath.Join(w.ws, ".claude/worktrees/x/.claude/settings.json"), filepath.Join(w.ws, ".claude/worktrees/x/.claude/settings.json")},
		{filepath.Join(beside, ".mcp.json"), filepath.Join(beside, ".mcp.json")},
	} {
		w.wantGuarded(&want, strconv.Itoa(i), "Write", args{"file_path": c.file, "content": "x"}, c.guarded)
	}
	if a := w.before("outside", "Write", args{"file_path": filepath.Join(w.out, "main.go"), "content": "x"}); a.decision == "allow" {
		t.Errorf("a file in no workspace: %+v", a)
	}
	wantNamed(t, stop(), append(want, "Outside of the declared workspaces"))
}

// TestMentionIsNoWrite: a shell line requires approval if it may write to a guarded file, and
// not if it only reads or mentions the file.
func TestMentionIsNoWrite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, free)
	stop := w.people(no)
	file := func(path ...string) string { return filepath.Join(append([]string{w.ws}, path...)...) }
	mcp, home := file(".mcp.json"), must.Get(os.UserHomeDir())(t)
	var want []string
	for i, c := range []struct{ line, guarded string }{
		{"echo '{}' > .claude/settings.local.json", file(".claude", "settings.local.json")},
		{"echo '{}' > settings.local.json", ""},
		{"rm -rf " + filepath.Join(w.out, "state"), filepath.Join(w.out, "state")},
		{`cp x "$HOME/.codex/config.toml"`, filepath.Join(home, ".codex", "config.toml")},
		{`cp x "$HOME/.codexes/config.toml"`, ""},
		{"cp x ~/.codex/config.toml", filepath.Join(home, ".codex", "config.toml")},
		{"cp .mcp.json /tmp/x", ""},
		{"cp -t .claude x", file(".claude")},
		{"mv .mcp.json old.json", mcp},
		{"git commit -m 'docs: say where .mcp.json is'", ""},
		{"git commit -m \"$(cat <<'EOF'\ndocs: say where .mcp.json is\nEOF\n)\"", ""},
		{"git add .mcp.json && git -C . diff .mcp.json", ""},
		{"git checkout -- .mcp.json", mcp},
		{"git diff --output=.mcp.json", mcp},
		{"make && git commit -m 'docs: .mcp.json'", ""},
		{"ls .claude/", ""},
		{"jq . .mcp.json", ""},
		{"grep -rn --exclude-dir=.claude TODO .", ""},
		{"cat > notes.md <<'EOF'\nEdit .mcp.json by hand.\nEOF", ""},
		{"cat > .mcp.json <<'EOF'\n{}\nEOF", mcp},
		{"python3 - <<'EOF'\nopen('.mcp.json', 'w')\nEOF", mcp},
		{"python3 -c \"open('.mcp.json','w')\"", mcp},
		{"echo .mcp.json | xargs rm", mcp},
		{"sed -n 1,3p .mcp.json", ""},
		{"sed -i s/a/b/ .mcp.json", mcp},
		{"sed -ni s/a/b/ .mcp.json", mcp},
		{"sort .mcp.json -o .mcp.json", mcp},
		{"find .claude -name '*.json'", ""},
		{"find .claude -name '*.json' -delete", file(".claude")},
		{"cd .claude && cat settings.json", ""},
		{"cd .claude && rm settings.json", file(".claude")},
		{"F=.mcp.json; echo {} > $F", mcp},
		{"tee .mcp.json < x", mcp},
		{"cat() { rm \"$@\"; }; cat .mcp.json; true", mcp},
	} {
		w.wantGuarded(&want, "l"+strconv.Itoa(i), "Bash", args{"command": c.line}, c.guarded)
	}
	wantNamed(t, stop(), want)
}

// wantNamed fails unless the approval requests name these files, in this order.
func wantNamed(t *testing.T, asked []approval.Record, want []string) {
	t.Helper()
	if len(asked) != len(want) {
		t.Fatalf("%d were asked about, want %d", len(asked), len(want))
	}
	for i, r := range asked {
		if !slices.ContainsFunc(r.Prompt.Notes, func(note string) bool { return strings.Contains(note, want[i]) }) {
			t.Errorf("the question %q does not name %s: %q", r.Prompt.Summary, want[i], r.Prompt.Notes)
		}
	}
}

// wantGuarded makes a call, and fails unless it is denied by the approver exactly if a guarded
// file is given.
func (w *world) wantGuarded(want *[]string, id, name string, input args, guarded string) {
	w.t.Helper()
	a := w.before(id, name, input)
	if (a.decision == "allow") != (guarded == "") || guarded != "" && !a.says(reason.ApprovalDenied) {
		w.t.Errorf("%s %v: %+v", name, input, a)
	}
	if guarded != "" {
		*want = append(*want, guarded)
	}
}

// TestMessagesAreReadExactly: a message of an agent with a duplicate spelling of a field that
// the gateway reads is denied. Control: a duplicate of a field that the gateway does not read.
func TestMessagesAreReadExactly(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	for _, c := range []struct {
		name    string
		value   any
		refused bool
	}{
		{"Transcript_Path", "/y", false},
		{"Tool_Name", "Bash", true}, {"TOOL_INPUT", args{"file_path": "/x"}, true}, {"HOOK_EVENT_NAME", "PostToolUse", true}, {"Session_Id", "other", true},
	} {
		a := w.claude("PreToolUse", "t-"+strings.ToLower(c.name), "Read", args{"file_path": filepath.Join(w.ws, "a")}, c.name, c.value)
		if a.says(reason.InvalidInput) != c.refused || (a.decision == "allow") == c.refused {
			t.Errorf("with %s: %+v", c.name, a)
		}
	}
}

// TestMismatchedReports: a report of another call than the permitted one raises an alarm and taints
// the session.
func TestMismatchedReports(t *testing.T) {
	t.Parallel()
	in := func(w *world) args { return args{"file_path": filepath.Join(w.ws, "a")} }
	for name, c := range map[string]struct {
		do      func(*world)
		code    event.Code
		tainted bool
	}{
		"as decided":        {func(w *world) { w.before("t1", "Read", in(w)); w.after("t1", "Read", in(w)) }, "", false},
		"other input":       {func(w *world) { w.before("t1", "Read", in(w)); w.after("t1", "Read", args{"file_path": "/x"}) }, event.RanOther, true},
		"another tool":      {func(w *world) { w.before("t1", "Read", in(w)); w.after("t1", "Grep", in(w)) }, event.RanOther, true},
		"nobody was asked":  {func(w *world) { w.after("t9", "Read", in(w)) }, event.Ungoverned, true},
		"it was denied":     {func(w *world) { w.deny("t1"); w.after("t1", "Bash", args{"command": "x"}) }, event.Ungoverned, true},
		"a failed one, too": {func(w *world) { w.claude("PostToolUseFailure", "t9", "Read", in(w), "error", "no") }, event.Ungoverned, true},
		"reported twice": {func(w *world) {
			w.before("t1", "Read", in(w))
			w.after("t1", "Read", in(w))
			w.after("t1", "Read", args{"file_path": "/etc/x"})
		}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "")
			c.do(w)
			if c.code != "" {
				e := w.eventually(c.code, 1)
				p, ok := must.Get(record.Decode(&e[0]))(t).(*record.Sighted)
				if !ok || p.Reason == "" || p.Agent != "claude-code" || p.Message == "" {
					t.Errorf("the event says %+v", p)
				}
			} else if n := len(w.events(event.RanOther)) + len(w.events(event.Ungoverned)); n != 0 {
				t.Errorf("%d alarms", n)
			}
			if c := w.hooks.Counts(); (c.RanOther+c.Ungoverned == 1) != (c.LastAlarm != time.Time{}) {
				t.Errorf("counted %+v", c)
			}
			w.idle()
			if !w.taintedIs(c.tainted) {
				t.Errorf("tainted is not %v", c.tainted)
			}
			w.restart() // the durable state is the same
			w.before("after", "TodoWrite", args{})
			if got := w.tainted(); got != c.tainted {
				t.Errorf("tainted after a restart %v", got)
			}
		})
	}
}

// TestUnreported: calls without a report end with the agent's session. A later report is
// journaled and raises no alarm.
func TestUnreported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := args{"file_path": filepath.Join(w.ws, "a")}
	w.before("t1", "Read", in)
	w.session = "s2"
	w.claude("SessionEnd", "", "", nil, "reason", "other")
	if w.hooks.Counts().Open != 1 {
		t.Error("the end of another session closed the call")
	}
	w.session = "s1"
	w.claude("Stop", "", "", nil, "background_tasks", []any{args{"status": "running"}})
	if w.hooks.Counts().Open != 1 {
		t.Error("a turn with something in the background closed the call")
	}
	w.claude("SessionEnd", "", "", nil, "reason", "other")
	if p := w.report(1); p.Report.Reason != string(reason.Unreported) || p.Report.Claim.State != tool.Unreported || p.Report.Outcome != tool.Unknown {
		t.Errorf("the report is %+v", p.Report)
	}
	w.after("t1", "Read", in)
	w.eventually(event.ReportedLate, 1)
	w.after("t1", "Read", in)
	if n := len(w.events(event.ReportedLate)); n != 1 || len(w.events(event.Ungoverned)) != 0 {
		t.Errorf("%d late reports", n)
	}
}

// TestIDs: an id identifies one call of one credential.
func TestIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	a, b := args{"file_path": filepath.Join(w.ws, "a")}, args{"file_path": filepath.Join(w.ws, "b")}
	if got := w.before("t1", "Read", a); got.decision != "allow" {
		t.Fatalf("%+v", got)
	}
	if got := w.before("t1", "Read", a); got.decision != "allow" || len(w.events(event.Proposed)) != 1 {
		t.Errorf("the same question again: %+v, %d proposals", got, len(w.events(event.Proposed)))
	}
	if got := w.before("t1", "Read", b); got.decision != "deny" || !got.says(reason.InvalidInput) {
		t.Errorf("another call under the same id: %+v", got)
	}
	own := w.caller
	w.caller.DeviceID = "01JNA3Q0G0DEV1CE0000000009"
	if got := w.before("t1", "Read", b); got.decision != "allow" {
		t.Errorf("another credential has ids of its own: %+v", got)
	}
	w.after("t1", "Read", b)
	if w.report(1).Report.Claim.State != tool.Reported || len(w.events(event.RanOther)) != 0 {
		t.Error("the report of one credential was taken for the other's call")
	}
	w.caller = own
	w.after("t1", "Read", a)
	w.report(2)
	if got := w.before("t1", "Read", a); got.decision != "deny" {
		t.Errorf("an id of a call that ended: %+v", got)
	}
}

// TestTimeout: the agent gets an answer before its timeout, and the same call can then resume,
// also under another id. An approval permits one run.
func TestTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := args{"command": "make"}
	first := w.requestWithoutTime("t1", in)
	if first.decision != "deny" || !first.says(reason.StillWaiting) {
		t.Fatalf("the hook was told %+v", first)
	}
	stop := w.people(yes)
	again := w.before("t2", "Bash", in)
	if asked := stop(); len(asked) != 1 || again.decision != "allow" || len(w.events(event.Asked)) != 1 {
		t.Fatalf("%d asks, and the repeated call: %+v", len(asked), again)
	}
	w.after("t2", "Bash", in)
	if p := w.report(1); p.Report.Claim.State != tool.Reported {
		t.Errorf("the report is %+v", p.Report)
	}
	stop = w.people(no)
	if a := w.before("t3", "Bash", in); a.decision != "deny" {
		t.Errorf("a yes was good for two runs: %+v", a)
	}
	stop()
}

// TestAnotherDirectoryIsAnotherCall: a waiting call is not joined from another directory.
func TestAnotherDirectoryIsAnotherCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := args{"command": "make"}
	w.requestWithoutTime("t1", in)
	stop := w.people(no)
	if a := w.claude("PreToolUse", "t2", "Bash", in, "cwd", w.out); a.decision != "deny" || a.says(reason.StillWaiting) {
		t.Errorf("the hook was told %+v", a)
	}
	if asked := stop(); len(asked) != 2 { // both calls are pending, and both are decided
		t.Errorf("%d asks", len(asked))
	}
}

// TestHookDisconnects: a waiting call ends when its hook disconnects.
func TestHookDisconnects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan answer)
	go func() { done <- w.send(ctx, "codex", w.codex("t1", "Bash", args{"command": "make"})) }()
	w.eventually(event.Asked, 1)
	leave()
	if a := <-done; a.decision != "deny" {
		t.Errorf("the hook was told %+v", a)
	}
	w.eventually(event.Cancelled, 1)
}

// TestRestart: calls that were running when the gateway stopped are closed. A later report
// raises an alarm only if it does not match.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := args{"file_path": filepath.Join(w.ws, "a")}
	w.before("t1", "Read", in)
	w.before("t2", "Read", in)
	w.restart()
	if n := len(w.events(event.Ambiguous)); n != 2 {
		t.Fatalf("%d calls were closed", n)
	}
	w.after("t1", "Read", in)
	w.eventually(event.ReportedLate, 1)
	if len(w.events(event.Ungoverned)) != 0 {
		t.Error("a call that was let run before the restart is an alarm")
	}
	w.after("t2", "Read", args{"file_path": "/x"})
	w.eventually(event.Ungoverned, 1)
}

// TestFreeze: while the gateway is frozen, calls are denied, and running ones are closed.
func TestFreeze(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := args{"file_path": filepath.Join(w.ws, "a")}
	w.before("t1", "Read", in)
	w.Router.Freeze()
	if p := w.report(1); p.Report.Reason != string(reason.GatewayFrozen) {
		t.Errorf("the report is %+v", p.Report)
	}
	if a := w.before("t2", "Read", in); a.decision != "deny" || !a.says(reason.GatewayFrozen) {
		t.Errorf("while frozen: %+v", a)
	}
	w.Router.Thaw()
	if a := w.before("t3", "Read", in); a.decision != "allow" {
		t.Errorf("the control: %+v", a)
	}
}

// TestAgentToolsNeedTheHook: tools of agents can be called only through the hook. Other calls
// are refused without an approval request.
func TestAgentToolsNeedTheHook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	_, err := w.Pipeline.Call(t.Context(), call.Submission{Caller: w.caller, Tool: "claude-code/Bash", Input: []byte(`{"command":"ls"}`)}, func(call.Event) {})
	if reason.Of(err) != reason.ExecutedElsewhere || len(w.events(event.Asked)) != 0 {
		t.Errorf("got %v", err)
	}
}

// TestSessionEndResetsNothing: a session stays tainted after the agent reports the end of its own
// session.
func TestSessionEndResetsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	w.after("t9", "Read", args{"file_path": "/x"})
	w.claude("SessionEnd", "", "", nil)
	w.session = "s2"
	w.before("t1", "TodoWrite", args{})
	if !w.tainted() {
		t.Error("the end of the agent's session cleared the taint")
	}
}

// TestGrantOfALine: a session grant covers exactly the approved line in its directory,
// regardless of its description, and no similar line.
func TestGrantOfALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	stop := w.people(forTheSession)
	w.before("t1", "Bash", args{"command": "go test ./...", "description": "a"})
	stop()
	stop = w.people(no)
	defer stop()
	for i, c := range []struct {
		in      args
		cwd     string
		allowed bool
	}{
		{args{"command": "go test ./...", "description": "b", "timeout": 5}, w.ws, true},
		{args{"command": "go test ./... && rm -rf ~"}, w.ws, false},
		{args{"command": "go test  ./..."}, w.ws, false},
		{args{"command": "go test ./..."}, w.out, false},
		{args{"command": "go test ./...", "dangerouslyDisableSandbox": true}, w.ws, false},
		{args{"command": "go test ./...", "run_in_background": true}, w.ws, false},
	} {
		if a := w.claude("PreToolUse", "g"+strconv.Itoa(i), "Bash", c.in, "cwd", c.cwd); (a.decision == "allow") != c.allowed {
			t.Errorf("%v in %s: %+v", c.in, c.cwd, a)
		}
	}
}
