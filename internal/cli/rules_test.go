package cli

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/identity"
)

// TestDecideWithoutTerminalNeedsTheDigest. The control is the same command
// with it.
func TestDecideWithoutTerminalNeedsTheDigest(t *testing.T) {
	w := newWorld(t)
	w.pending()
	r := w.run("approvals", "decide", approvalID, "--allow", "once")
	w.want(r, 2)
	if len(w.gateway.votes) != 0 || !strings.Contains(r.err, "--digest is required") {
		t.Errorf("%d votes: %s", len(w.gateway.votes), r.err)
	}
	w.want(w.run(decideArgs("--allow", "once")...), 0)
	if len(w.gateway.votes) != 1 {
		t.Errorf("%d votes", len(w.gateway.votes))
	}
}

// TestDecideInATerminal shows the call in full and asks; the digest is that of
// the call that was shown.
func TestDecideInATerminal(t *testing.T) {
	for _, c := range []struct {
		name  string
		typed string
		args  []string
		code  int
		votes int
	}{
		{"confirmed", "allow\n", []string{"--allow", "once"}, 0, 1},
		{"not confirmed", "y\n", []string{"--allow", "once"}, 1, 0},
		{"denied", "deny\n", []string{"--deny", "--reason", "no"}, 0, 1},
		{"yes", "", []string{"--allow", "once", "--yes"}, 0, 1},
		{"chosen", "o\n", nil, 0, 1},
		{"left", "l\n", nil, 0, 0},
		{"digest given", "", []string{"--allow", "once", "--digest", someApproval().GetCallDigest()}, 0, 1},
		{"another digest", "o\n", []string{"--digest", "sha256:" + strings.Repeat("0", 64)}, 7, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.pending()
			r := w.with(typing(c.typed), append([]string{"approvals", "decide", approvalID}, c.args...)...)
			w.want(r, c.code)
			if len(w.gateway.votes) != c.votes {
				t.Fatalf("%d votes\n%s", len(w.gateway.votes), r.err)
			}
			if c.votes > 0 && w.gateway.votes[0].GetShownDigest() != someApproval().GetCallDigest() {
				t.Error("the vote does not carry the digest of the call")
			}
		})
	}
}

func TestDecideFlags(t *testing.T) {
	w := newWorld(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--deny"}, "a no needs a reason"},
		{[]string{"--deny", "--reason", "x", "--allow", "once"}, "exclude each other"},
		{[]string{"--deny", "--reason", "x", "--for", "1h"}, "belong to --allow"},
		{[]string{"--allow", "twice"}, "want one of once, session, timeboxed"},
		{[]string{"--allow", "timeboxed"}, "needs a time"},
		{[]string{"--allow", "timeboxed", "--for", "30s"}, "from 1m to 7d"},
		{[]string{"--allow", "timeboxed", "--for", "8d"}, "from 1m to 7d"},
		{[]string{"--allow", "timeboxed", "--for", "soon"}, "is no time"},
		{[]string{"--allow", "session", "--for", "1h"}, "timeboxed yes only"},
		{[]string{"--allow", "once", "--match", "tool"}, "this exact call"},
		{[]string{"--allow", "session", "--match", "tol"}, "Did you mean tool?"},
		{nil, "no answer given"},
	} {
		r := w.run(decideArgs(c.args...)...)
		if r.code != 2 || !strings.Contains(r.err, c.says) {
			t.Errorf("%v: exit code %d, want 2 and %q: %s", c.args, r.code, c.says, r.err)
		}
	}
	if len(w.gateway.votes) != 0 {
		t.Error("a vote was sent")
	}
}

// TestWhatCannotBeUndone needs --yes without a terminal, and a y in one.
func TestWhatCannotBeUndone(t *testing.T) {
	for _, args := range [][]string{{"devices", "revoke", "01DEVICE000000000000000000"}} {
		revoked := func(w *world) bool {
			return w.gateway.grants["01GRANT0000000000000000000"].GetRevokedAt() != nil || w.gateway.devices[0].GetRevokedAt() != nil
		}
		for _, c := range []struct {
			s    Streams
			args []string
			code int
			done bool
		}{
			{Streams{}, nil, 2, false},
			{typing("n\n"), nil, 1, false},
			{typing("\n"), nil, 1, false},
			{typing("y\n"), nil, 0, true},
			{Streams{}, []string{"--yes"}, 0, true},
			{typing("y\n"), []string{"--no-input"}, 2, false},
		} {
			w := newWorld(t)
			w.populate()
			r := w.with(c.s, append(append([]string{}, args...), c.args...)...)
			w.want(r, c.code)
			if revoked(w) != c.done {
				t.Errorf("%v %v: done %v, want %v", args, c.args, revoked(w), c.done)
			}
		}
	}
}

// TestKeyMustBePrivate: a bundle whose key others can read is not used. The
// control is the same bundle with its mode.
func TestKeyMustBePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes protect nothing there")
	}
	w := newWorld(t)
	w.want(w.run("status"), 0)
	key := filepath.Join(w.bundle, "key.pem")
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660} {
		if err := os.Chmod(key, mode); err != nil {
			t.Fatal(err)
		}
		if r := w.run("status"); r.code == 0 || !strings.Contains(r.err, "key.pem") {
			t.Errorf("mode %o: exit code %d: %s", mode, r.code, r.err)
		}
	}
}

// TestOtherGateway: a server that another CA certified is refused.
func TestOtherGateway(t *testing.T) {
	w, other := newWorld(t), newWorld(t)
	r := w.run("--address", other.address, "status")
	w.want(r, 6)
	if !strings.Contains(r.err, "not the gateway of the credential bundle") {
		t.Error(r.err)
	}
	w.want(w.run("--address", w.address, "status"), 0)
}

// TestRenewal: a certificate past two thirds of its life is renewed and the
// bundle replaced; a younger one, and the local operator's, are not.
func TestRenewal(t *testing.T) {
	real := time.Now()
	for _, c := range []struct {
		name     string
		from, to time.Duration
		local    bool
		renewals int
	}{
		{"young", -time.Hour, 3 * time.Hour, false, 0},
		{"old", -5 * time.Hour, time.Hour, false, 1},
		{"local", -5 * time.Hour, time.Hour, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.now = real
			if c.local {
				w.bundle = filepath.Join(w.home, "state", "palyra", "operator")
				w.env["PALYRA_CREDENTIALS"] = ""
			}
			w.writeBundle(real.Add(c.from), real.Add(c.to))
			for range 2 {
				w.want(w.run("status"), 0)
			}
			if w.gateway.renewals != c.renewals {
				t.Errorf("%d renewals, want %d", w.gateway.renewals, c.renewals)
			}
			b, err := identity.ReadBundle(w.bundle)
			if err != nil {
				t.Fatal(err)
			}
			if renewed := b.NotAfter().After(real.Add(23 * time.Hour)); renewed != (c.renewals > 0) {
				t.Errorf("the bundle ends %s", b.NotAfter())
			}
		})
	}
}

// TestWatch prints rows as they come and ends well when interrupted.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	w.populate()
	ctx, cancel := context.WithCancel(context.Background())
	watch := newWatcher("01APPROVA00000000000000000")
	go func() { <-watch.seen; cancel() }()
	r := w.within(ctx, Streams{Out: watch}, "approvals", "watch", "-o", "name")
	w.want(r, 0)
	if r.out != approvalID+"\n01APPROVA00000000000000000\n" {
		t.Errorf("%q", r.out)
	}
}

func TestRevokingAGrantAsksNothing(t *testing.T) {
	w := newWorld(t)
	w.populate()
	w.want(w.run("grants", "revoke", "01GRANT0000000000000000000"), 0)
}

func TestExportApprovals(t *testing.T) {
	w := newWorld(t)
	r := w.run("approvals", "export", "--format", "json")
	w.want(r, 0)
	if !strings.HasSuffix(r.out, `"format":"EXPORT_FORMAT_JSON"}`+"\n") {
		t.Error(r.out)
	}
	w.want(w.run("approvals", "export", "--format", "xml"), 2)
}

// TestCompletion completes live ids with descriptions, and says nothing when
// the gateway is away.
func TestCompletion(t *testing.T) {
	w := newWorld(t)
	w.populate()
	r := w.run("__complete", "approvals", "decide", "")
	w.want(r, 0)
	if !strings.HasPrefix(r.out, approvalID+"\tpending The agent wants to run a program in a sandbox.\n") || strings.Contains(r.out, "01APPROVA00000000000000000") {
		t.Error(r.out)
	}
	if r := w.run("__complete", "call", ""); !strings.HasPrefix(r.out, "process.run\tRun a program\n") {
		t.Error(r.out)
	}
	w.env["PALYRA_ADDRESS"] = closedAddress
	if r := w.run("__complete", "approvals", "show", ""); r.code != 0 || !strings.HasPrefix(r.out, ":4") {
		t.Errorf("%d %q", r.code, r.out)
	}
}

// TestHelpIsComplete: every command has a short text, and help goes to stdout.
func TestHelpIsComplete(t *testing.T) {
	w := newWorld(t)
	for _, args := range [][]string{{"--help"}, {"help"}, {}, {"approvals"}, {"help", "approvals", "decide"}, {"approvals", "decide", "--help"}, {"help", "exit-codes"}, {"help", "output"}, {"man"}} {
		for _, s := range []Streams{{}, {OutTerminal: true, ErrTerminal: true, Width: 100}} {
			r := w.with(s, args...)
			w.want(r, 0)
			if r.out == "" || r.err != "" {
				t.Errorf("%v: stdout %q, stderr %q", args, r.out, r.err)
			}
		}
	}
	if r := w.run("help", "exit-codes"); !strings.Contains(r.out, "124  the tool ran into its deadline") || !strings.Contains(r.out, "POLICY_DENIED") {
		t.Error(r.out)
	}
}

func TestGrantState(t *testing.T) {
	w := newWorld(t)
	w.populate()
	w.now = testNow.Add(2 * time.Hour)
	if r := w.run("grants", "list"); !strings.Contains(r.out, "ended") {
		t.Error(r.out)
	}
	var none *palyrav1.Grant
	if newApp(Streams{}).grantState(none) != "live" {
		t.Error("a grant without an end is live")
	}
}
