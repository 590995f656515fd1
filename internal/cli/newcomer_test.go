package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/event"
)

// TestOwnCall: whoever cannot answer is told who can, and the call goes on
// waiting. The control is TestAnswerInPlace, with one user.
func TestOwnCall(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*fakeGateway)
		votes int
		asked bool
	}{
		"several users": {func(f *fakeGateway) { f.several = true }, 0, false},
		"refused":       {func(f *fakeGateway) { f.votesRefused = true }, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			c.set(w.gateway)
			w.gateway.asks(someApproval(), finished("succeeded", "", `{}`))
			ctx, cancel := context.WithCancel(context.Background())
			watch := newWatcher("--deny --reason TEXT")
			go func() { <-watch.seen; cancel() }()
			s := typing("o\no\n")
			s.Err = watch
			r := w.within(ctx, s, "call", "process.run")
			w.want(r, 1)
			if len(w.gateway.votes) != c.votes || strings.Contains(r.err, "answer>") != c.asked || !strings.Contains(r.err, "still waits for approval") {
				t.Errorf("%d votes\n%s", len(w.gateway.votes), r.err)
			}
		})
	}
}

func TestDecideRefused(t *testing.T) {
	w := newWorld(t)
	w.pending()
	w.gateway.votesRefused = true
	r := w.with(typing("y\no\no\n"), "approvals", "decide", approvalID)
	if r.code == 0 || len(w.gateway.votes) != 1 || !strings.Contains(r.err, "PERMISSION_DENIED") || !strings.Contains(r.err, "type o to allow once") {
		t.Errorf("exit code %d, %d votes\n%s", r.code, len(w.gateway.votes), r.err)
	}
	if !strings.Contains(r.err, summaryOf(someApproval())+"\nanswer> ") {
		t.Errorf("the summary is not above the answer:\n%s", r.err)
	}
}

func TestIDs(t *testing.T) {
	w := newWorld(t)
	w.populate()
	for _, c := range []struct {
		id   string
		code int
		says string
	}{
		{approvalID, 0, ""},
		{strings.ToLower(approvalID), 0, ""},
		{"01approva1", 0, ""},
		{"01APPROVA", 2, "2 approvals begin with it"},
		{"01APP", 2, "is not the id of any approval"},
		{"01APP/", 2, "is not the id of any approval"},
		{"01ZZZZZZ", 1, "no approval whose id begins with"},
	} {
		if r := w.run("approvals", "show", c.id); r.code != c.code || !strings.Contains(r.err, c.says) {
			t.Errorf("%s: exit code %d: %s", c.id, r.code, r.err)
		}
	}
	w.want(w.run("grants", "revoke", "01grant"), 0)
}

// TestNarrowTables: ids and times are whole on any terminal.
func TestNarrowTables(t *testing.T) {
	w := newWorld(t)
	w.populate()
	for _, width := range []int{80, 60} {
		for _, c := range []struct {
			args  []string
			whole []string
		}{
			{[]string{"approvals", "list"}, []string{approvalID, "9m12s"}},
			{[]string{"grants", "list"}, []string{"01GRANT0000000000000000000", "1h30m"}},
			{[]string{"devices", "list"}, []string{"01DEVICE000000000000000000"}},
		} {
			r := w.with(Streams{OutTerminal: true, Width: width}, append([]string{"--no-color"}, c.args...)...)
			for _, want := range c.whole {
				if !strings.Contains(r.out, want) {
					t.Errorf("%v at %d: %s is cut:\n%s", c.args, width, want, r.out)
				}
			}
			for line := range strings.Lines(r.out) {
				if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > width {
					t.Errorf("%v at %d: %d columns:\n%s", c.args, width, n, r.out)
				}
			}
		}
	}
}

func TestConfigMistakes(t *testing.T) {
	w := newWorld(t)
	w.config("max_cals_per_run = 7\n")
	r := w.run("freeze")
	w.want(r, 0)
	if !strings.Contains(r.err, "palyra config check") || strings.Count(r.err, "\n") != 1 {
		t.Error(r.err)
	}
	// What the file says of the client holds.
	w.config("max_cals_per_run = 7\n[client]\naddress = \"" + closedAddress + "\"\n")
	w.want(w.run("status"), 6)
	w.config("[client]\nadress = \"127.0.0.1:1\"\n")
	w.want(w.run("status"), 2)
}

func TestPolicyCheckOfTheConfiguration(t *testing.T) {
	w := newWorld(t)
	w.want(w.run("policy", "check"), 2)
	text, err := os.ReadFile("testdata/one.cedar")
	if err != nil {
		t.Fatal(err)
	}
	w.write("one.cedar", string(text))
	w.config("[policy]\ndir = \"" + filepath.ToSlash(w.home) + "\"\n")
	if r := w.run("policy", "check"); !strings.Contains(r.err, "1 file") {
		t.Error(r.err)
	}
}

func TestWhatHappened(t *testing.T) {
	for _, c := range []struct {
		code    event.Code
		payload string
		want    string
	}{
		{event.Decided, `{"allowed":true}`, "allow"},
		{event.Decided, `{"allowed":false,"reason":"POLICY_DENIED"}`, "deny POLICY_DENIED"},
		{event.Proposed, `{"tool":"echo"}`, "echo"},
		{event.Refused, `{"tool":"echo","reason":"INVALID_INPUT"}`, "INVALID_INPUT"},
		{event.Attested, `{"report":{"outcome":"failed"}}`, "failed"},
		{event.Voted, `{"vote":{"allow":false,"reason":"no"}}`, "deny no"},
		{event.Decided, ``, ""},
	} {
		if got := whatHappened(&palyrav1.Event{Code: string(c.code), PayloadJson: []byte(c.payload)}); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.code, c.payload, got, c.want)
		}
	}
}

func TestPlainWords(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"policy", "snapshot", "sha256:12"}, "is no digest"},
		{[]string{"call", "echo", "--session", "a b"}, "want at most 64 letters"},
		{append([]string{"approvals", "decide", approvalID, "--allow", "once", "--digest"}, "sha256:1"), "is no digest"},
	} {
		if r := w.run(c.args...); r.code != 2 || !strings.Contains(r.err, c.says) {
			t.Errorf("%v: exit code %d: %s", c.args, r.code, r.err)
		}
	}
}
