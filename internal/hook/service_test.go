package hook_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra/internal/approval"
	"palyra/internal/callrecord"
	"palyra/internal/event"
	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/tool"
	"palyra/internal/toolcall"
)

type args map[string]any

// TestReadIsDecidedAndReported: the whole way of a call that nobody is asked about.
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

// TestSensitiveToolsAsk: a person decides, and the agent is never told to ask itself.
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

// TestWhatAsksAndWhatNot walks the acts.
func TestWhatAsksAndWhatNot(t *testing.T) {
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

// TestOwnQuestions: where the agent asks its own user, it is told nothing but to go on.
func TestOwnQuestions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	if a := w.before("t1", "ExitPlanMode", args{"plan": "x"}); a.decision != "allow" || a.body != "{}" {
		t.Errorf("the hook was told %+v", a)
	}
}

// TestGuardedFiles: no yes lets an agent change what agents or the gateway run. The
// controls are files beside them; that it is the rule which denies is shown where the
// rule is (package policy).
func TestGuardedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	stop := w.people(yes)
	defer stop()
	for i, c := range []struct {
		name    string
		input   args
		guarded bool
	}{
		{"Write", args{"file_path": filepath.Join(w.ws, ".claude", "settings.json"), "content": "{}"}, true},
		{"Write", args{"file_path": filepath.Join(w.ws, ".claude", "plans", "notes.md"), "content": "{}"}, false},
		{"Edit", args{"file_path": filepath.Join(w.ws, ".CLAUDE", "Settings.json"), "old_string": "a", "new_string": "b"}, true},
		{"Write", args{"file_path": filepath.Join(w.ws, "sub", ".claude", "hooks", "x"), "content": "{}"}, true},
		{"Write", args{"file_path": filepath.Join(w.ws, ".mcp.json"), "content": "{}"}, true},
		{"Write", args{"file_path": filepath.Join(w.out, "state", "x"), "content": ""}, true},
		{"Write", args{"file_path": filepath.Join(w.out, "estate", "x"), "content": ""}, false},
		{"Bash", args{"command": "echo '{}' > .claude/settings.local.json"}, true},
		{"Bash", args{"command": "echo '{}' > settings.local.json"}, false},
		{"Bash", args{"command": "rm -rf " + filepath.Join(w.out, "state")}, true},
		{"Bash", args{"command": "cp x \"$HOME/.codex/config.toml\""}, true},
		{"Bash", args{"command": "cp x \"$HOME/.codexes/config.toml\""}, false},
		{"BrandNewTool", args{"into": ".mcp.json"}, true},
		{"Read", args{"file_path": filepath.Join(w.ws, ".claude", "settings.json")}, false},
	} {
		a := w.before("t"+strconv.Itoa(i), c.name, c.input)
		if (a.decision == "deny") != c.guarded || c.guarded && !a.says(reason.PolicyDenied) {
			t.Errorf("%s %v: %+v", c.name, c.input, a)
		}
	}
}

// TestReportsThatDoNotFit: what an agent ran otherwise than it was let is an alarm, and
// taints its session.
// TestMessagesAreReadExactly: a message of an agent with a second spelling of a member that is
// read is denied. The control has one of a member that is not.
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

func TestReportsThatDoNotFit(t *testing.T) {
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
				p, ok := must.Get(callrecord.Decode(&e[0]))(t).(*callrecord.Sighted)
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
			w.restart() // what is durable says the same
			w.before("after", "TodoWrite", args{})
			if got := w.tainted(); got != c.tainted {
				t.Errorf("tainted after a restart %v", got)
			}
		})
	}
}

// TestUnreported: calls that the agent never reports end with its session, and a report
// that comes then is on record, and no alarm.
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

// TestIDs: an id stands for one call of one credential.
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

// TestTimeIsUp: the agent gets its answer before it stops waiting, and the same call
// again goes on, also under another id. One yes is good for one run.
func TestTimeIsUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := args{"command": "make"}
	first := w.impatient("t1", in)
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

// TestAnotherPlaceIsAnotherCall: a call that waits is not joined from another directory.
func TestAnotherPlaceIsAnotherCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	in := args{"command": "make"}
	w.impatient("t1", in)
	stop := w.people(no)
	if a := w.claude("PreToolUse", "t2", "Bash", in, "cwd", w.out); a.decision != "deny" || a.says(reason.StillWaiting) {
		t.Errorf("the hook was told %+v", a)
	}
	if asked := stop(); len(asked) != 2 { // both were there, and both are answered
		t.Errorf("%d asks", len(asked))
	}
}

// TestHookLeaves: the end of the hook is the end of a call that waits.
func TestHookLeaves(t *testing.T) {
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

// TestRestart: what was running when the gateway stopped is closed, and a report of it
// is no alarm unless it does not fit.
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

// TestFreeze: nothing is let run, and what runs is closed.
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

// TestNobodyElseProposes: the tools of agents cannot be called by another way, and
// nobody is asked about such a call.
func TestNobodyElseProposes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "")
	_, err := w.Pipeline.Call(t.Context(), toolcall.Submission{Caller: w.caller, Tool: "claude-code/Bash", Input: []byte(`{"command":"ls"}`)}, func(toolcall.Event) {})
	if reason.Of(err) != reason.ExecutedElsewhere || len(w.events(event.Asked)) != 0 {
		t.Errorf("got %v", err)
	}
}

// TestSessionEndResetsNothing: what taints the session stays when the agent says that
// its own is over.
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

// TestGrantOfALine: a yes for the session is for the very line in the very directory,
// whatever it is said to be for, and for nothing that the line could be taken for.
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
