package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// olderRuns are two runs of earlier.
func olderRuns() []*palyrav1.Run {
	usage := &palyrav1.RunUsage{Calls: 4, Turns: 3, InputTokens: 900, OutputTokens: 100, WallClock: durationpb.New(12 * time.Second)}
	return []*palyrav1.Run{
		{
			RunId: "01RVN000000000000000000000", State: palyrav1.RunState_RUN_STATE_FAILED, Principal: "agent:claude", OnBehalfOf: "user:ada", Session: "01DEVICE/work",
			Model: "local", Workspace: "demo", Message: "tidy up\nand more", StartedAt: timestamppb.New(testNow.Add(-2 * time.Hour)), EndedAt: timestamppb.New(testNow.Add(-time.Hour)),
			Usage: usage, Reason: "MODEL_UNAVAILABLE", Detail: "the provider answered 503", Remedy: "Try again later.",
		},
		{
			RunId: "01RVM000000000000000000000", State: palyrav1.RunState_RUN_STATE_INTERRUPTED, Principal: "user:ada", OnBehalfOf: "user:ada", Session: "01DEVICE/default",
			Model: "fast", Workspace: "demo", Message: "count", StartedAt: timestamppb.New(testNow.Add(-3 * time.Hour)), EndedAt: timestamppb.New(testNow.Add(-2 * time.Hour)), Usage: usage,
			Reason: "RUN_INTERRUPTED",
		},
	}
}

func TestRunsList(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.listed = olderRuns()
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "01RVN000000000000000000000\n01RVM000000000000000000000\n"},
		{[]string{"--limit", "1"}, "01RVN000000000000000000000\n"},
		{[]string{"--state", "interrupted"}, "01RVM000000000000000000000\n"},
		{[]string{"--principal", "agent:claude", "--since", "24h"}, "01RVN000000000000000000000\n"},
	} {
		r := w.run(append([]string{"runs", "list", "-o", "name"}, c.args...)...)
		w.want(r, 0)
		if r.out != c.want {
			t.Errorf("%v: %q", c.args, r.out)
		}
	}
	if r := w.run("runs", "list", "--state", "faild"); r.code != 2 || !strings.Contains(r.err, "Did you mean failed?") {
		t.Errorf("%d %s", r.code, r.err)
	}
	if r := w.run("runs", "list", "--limit", "1"); !strings.Contains(r.err, "there are more") || strings.Contains(r.out, "and more") {
		t.Errorf("%q %q", r.out, r.err)
	}
}

// TestRunsShow: the record, and what happened to each call in order with the
// ids of its evidence.
func TestRunsShow(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = asking
	watch := newWatcher("--deny --reason TEXT")
	go func() { <-watch.seen; w.run(decideArgs("--allow", "once")...) }()
	w.want(w.with(Streams{Err: watch}, "run", "x"), 0)
	r := w.run("runs", "show", strings.ToLower(fakeRunID[:8]))
	w.want(r, 0)
	rest := r.out
	for _, want := range []string{
		"state         completed", "task          x\n", "used          2 calls, 2 turns, 700 tokens in, 112 out, 2.3s",
		"[1] fs.patch\n  patch=x\n", "proposed   proposal 01PROPOSAL00000000000A", "asked      approval " + approvalID,
		"answered   approval " + approvalID + ", allowed", "allowed    decision 01DECISION", "succeeded  1.5s", "[2] process.run", "last answer\n  Done.\n",
	} {
		_, after, ok := strings.Cut(rest, want)
		if !ok {
			t.Fatalf("does not show %q in its place:\n%s", want, r.out)
		}
		rest = after
	}
	asJSON := w.run("runs", "show", fakeRunID, "-o", "json").out
	sameValue(t, "runs show", asJSON, w.run("runs", "show", fakeRunID, "-o", "yaml").out)
	var doc struct {
		Kind, State, Text string
		Calls             []struct {
			Tool, Input string
			Steps       []struct{ At, What, Kind, ID, Detail string }
		}
	}
	if err := json.Unmarshal([]byte(asJSON), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Kind != "Run" || doc.State != "completed" || doc.Text != "Done." || len(doc.Calls) != 2 || doc.Calls[0].Input != `{"patch":"x"}` || doc.Calls[0].Steps[1].ID != approvalID {
		t.Errorf("%+v", doc)
	}
	if r := w.run("runs", "show", "01ZZZZZZZZZZZZZZZZZZZZZZZZ"); r.code != 1 || !strings.Contains(r.err, "NOT_FOUND") {
		t.Errorf("%d %s", r.code, r.err)
	}
}

// TestRunsShowOfOneThatGoesOn shows what happened so far and ends, also when
// what came last is not durable.
func TestRunsShowOfOneThatGoesOn(t *testing.T) {
	w := newWorld(t)
	done := make(chan struct{})
	w.gateway.runs.script = func(r *fakeRun) {
		r.turn("I begin.", [3]string{"A", "echo", `{}`}, [3]string{"B", "echo", `{}`})
		r.propose("A", "echo")
		r.propose("B", "echo")
		r.call("B", allowed())
		r.call("B", output("stdout", "one\n"))
		close(done)
		<-r.ctx.Done()
	}
	w.want(w.run("run", "--detach", "x"), 0)
	<-done
	r := w.run("runs", "show", fakeRunID)
	w.want(r, 0)
	for _, want := range []string{"state         running", "[1] echo\n", "[2] echo\n", "allowed    decision 01DECISION", "last answer\n  I begin.\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("does not show %q:\n%s", want, r.out)
		}
	}
}

// TestRunsWatch: the same view from any place, and Ctrl-C leaves the run alone.
func TestRunsWatch(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = pair
	w.want(w.run("run", "--detach", "look"), 0)
	r := w.run("runs", "watch", fakeRunID)
	w.want(r, 0)
	if r.out != "It greets; two commits.\n" || !strings.Contains(r.err, "started 2026-03-04T05:06:07Z (now) by user:ada: look\nI look at the file") {
		t.Errorf("stdout %q\nstderr %s", r.out, r.err)
	}
	// From the middle on, calls have the numbers in which they show up.
	r = w.run("runs", "watch", fakeRunID, "--after", "8388664")
	if r.code != 0 || !strings.HasPrefix(r.err, "[1] | one\n[2] succeeded, 1.5s\n") {
		t.Errorf("%d %s", r.code, r.err)
	}
	w.want(w.run("runs", "watch", fakeRunID, "--after", "-1"), 2)

	other := newWorld(t)
	other.gateway.runs.script = func(r *fakeRun) { <-r.ctx.Done() }
	other.want(other.run("run", "--detach", "x"), 0)
	ctx, cancel := context.WithCancel(t.Context())
	watch := newWatcher("started ")
	go func() { <-watch.seen; cancel() }()
	r = other.within(ctx, Streams{Err: watch}, "runs", "watch", fakeRunID)
	other.want(r, 0)
	if !strings.Contains(r.err, "the run goes on; see it again with `palyra runs watch "+fakeRunID+" --after 1048583`") || other.gateway.runs.run.over() {
		t.Error(r.err)
	}
}

// TestRunsWatchAnswers: who watches and may decide is asked; what was answered
// before is not asked again.
func TestRunsWatchAnswers(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = asking
	w.want(w.run("run", "--detach", "x"), 0)
	r := w.with(typing("o\n"), "--no-color", "runs", "watch", fakeRunID)
	w.want(r, 0)
	if len(w.gateway.votes) != 1 || strings.Count(r.err, "answer>") != 1 {
		t.Errorf("%d votes\n%s", len(w.gateway.votes), r.err)
	}
	again := w.with(typing("o\n"), "--no-color", "runs", "watch", fakeRunID)
	w.want(again, 0)
	if strings.Contains(again.err, "answer>") || len(w.gateway.votes) != 1 {
		t.Errorf("asked again:\n%s", again.err)
	}
}

func TestRunsCancel(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.script = func(r *fakeRun) { <-r.ctx.Done() }
	w.want(w.run("run", "--detach", "x"), 0)
	r := w.run("runs", "cancel", fakeRunID, "--reason", "wrong branch")
	w.want(r, 0)
	if !strings.Contains(r.out, "state         cancelled\n") || !strings.Contains(r.out, "because       wrong branch\n") {
		t.Error(r.out)
	}
	w.want(w.run("runs", "cancel", fakeRunID), reason.Lookup(reason.RunEnded).Exit)
}

// TestRunCompletion completes live runs, models and workspaces.
func TestRunCompletion(t *testing.T) {
	w := newWorld(t)
	w.gateway.runs.listed = olderRuns()
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"runs", "show", ""}, "01RVN000000000000000000000\tfailed tidy up\n"},
		{[]string{"runs", "cancel", ""}, ":4\n"},
		{[]string{"run", "-m", ""}, "fast\tanthropic fast-1\nlocal\topenai\n"},
		{[]string{"run", "-w", ""}, "demo\t/srv/demo\n"},
	} {
		if r := w.run(append([]string{"__complete"}, c.args...)...); !strings.HasPrefix(r.out, c.want) {
			t.Errorf("%v: %q", c.args, r.out)
		}
	}
}
