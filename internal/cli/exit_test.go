package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/reason"
)

// TestExitCodes reaches each exit code in the way a person would.
func TestExitCodes(t *testing.T) {
	cases := []struct {
		name string
		code int
		set  func(w *world)
		args []string
		says string
	}{
		{"success", 0, nil, []string{"status"}, ""},
		{"not ready", 1, func(w *world) { w.gateway.ready = false }, []string{"status"}, ""},
		{"failure", 1, func(w *world) { w.plays(finished("failed", reason.FileNotFound, "")) }, []string{"call", "fs.read"}, "next: "},
		{"usage: command", 2, nil, []string{"aprovals"}, "Did you mean approvals?"},
		{"usage: subcommand", 2, nil, []string{"approvals", "lst"}, "Did you mean list?"},
		{"usage: flag", 2, nil, []string{"status", "--wat"}, "palyra status --help"},
		{"usage: argument", 2, nil, []string{"approvals", "show"}, "an argument is missing"},
		{"usage: too many", 2, nil, []string{"status", "now"}, "too many arguments"},
		{"usage: format", 2, nil, []string{"status", "-o", "jsn"}, "Did you mean json?"},
		{"usage: state", 2, nil, []string{"approvals", "list", "--state", "pendin"}, "Did you mean pending?"},
		{"usage: configuration", 2, func(w *world) { w.config("[client]\nnonsense = 1\n") }, []string{"status"}, "nonsense"},
		{"policy denial", 3, func(w *world) { w.plays(deniedFor(reason.PolicyDenied, "no programs")) }, []string{"call", "process.run"}, "exec.none (20-exec.cedar:7)"},
		{"dry run denied", 3, nil, []string{"call", "never", "--dry-run"}, ""},
		{"approval denied", 4, func(w *world) { w.answered(palyrav1.ApprovalState_APPROVAL_STATE_DENIED) }, []string{"call", "process.run"}, "ada denied"},
		{"approval expired", 5, func(w *world) { w.answered(palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED) }, []string{"call", "process.run"}, "in time"},
		{"not running", 6, func(w *world) { w.env["PALYRA_ADDRESS"] = closedAddress }, []string{"status"}, "Start the gateway with `palyrad`"},
		{"no bundle", 6, func(w *world) { w.env["PALYRA_CREDENTIALS"] = "" }, []string{"status"}, "Start the gateway on this machine"},
		{"not known", 6, func(w *world) {
			w.gateway.fail = gatewayError(connect.CodeUnauthenticated, reason.Unauthenticated, "the device was revoked", nil)
		}, []string{"status"}, "revoked"},
		{"conflict", 7, func(w *world) { w.decided() }, decideArgs("--allow", "once"), "changed_by: user:bob"},
		{"other digest", 7, func(w *world) { w.pending() }, []string{"approvals", "decide", approvalID, "--allow", "once", "--digest", "sha256:" + strings.Repeat("0", 64)}, "DIGEST_MISMATCH"},
		{"verification", 8, func(w *world) { w.write("bad.ndjson", "{}\n") }, []string{"journal", "verify", "bad.ndjson"}, "line 1"},
		{"old key set", 10, func(w *world) { w.write("old.ndjson", w.read("testdata/release-1/export.ndjson")) }, []string{"journal", "verify", "old.ndjson", "--keys", "testdata/release-1/keys.json"}, "version 1"},
		{"changed result", 8, func(w *world) {
			r := finished("succeeded", "", `{"a":1}`)
			r.GetResult().ResultJson = []byte(`{"a":2}`)
			w.plays(allowed(), r)
		}, []string{"call", "echo"}, "not the one that the gateway recorded"},
		{"no sandbox", 9, func(w *world) { w.plays(allowed(), finished("refused", reason.SandboxUnavailable, "")) }, []string{"call", "process.run"}, "bubblewrap"},
		{"deadline", 124, func(w *world) {
			w.plays(allowed(), finished("timed_out", reason.TimedOut, processJSON(-1, "half", "")))
		}, []string{"call", "process.run"}, "deadline"},
		{"tool's own exit code", 0, func(w *world) {
			w.plays(allowed(), finished("succeeded", "", processJSON(3, "", "no")))
		}, []string{"call", "process.run"}, ""},
	}
	reached := map[int]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			if c.set != nil {
				c.set(w)
			}
			for i, arg := range c.args {
				if strings.HasSuffix(arg, ".ndjson") {
					c.args[i] = filepath.Join(w.home, arg)
				}
			}
			r := w.run(c.args...)
			w.want(r, c.code)
			if !strings.Contains(r.err, c.says) {
				t.Errorf("stderr does not say %q:\n%s", c.says, r.err)
			}
			reached[c.code] = true
		})
	}
	for _, row := range exitCodes {
		if !reached[row.code] {
			t.Errorf("no case reaches exit code %d", row.code)
		}
	}
}

// TestEveryReasonHasItsExitCode sends each reason as the gateway does.
func TestEveryReasonHasItsExitCode(t *testing.T) {
	w := newWorld(t)
	for _, row := range reason.Table {
		w.gateway.change(func() {
			w.gateway.fail = gatewayError(connect.CodeInternal, row.Code, "because", map[string]string{"remedy": "Do this.", "field": "x"})
		})
		r := w.run("status")
		if r.code != row.Exit {
			t.Errorf("%s: exit code %d, want %d", row.Code, r.code, row.Exit)
		}
		want := "error: because [" + string(row.Code) + "]\n  field: x\nnext: Do this.\n"
		if r.err != want || r.out != "" {
			t.Errorf("%s: stdout %q, stderr %q, want %q", row.Code, r.out, r.err, want)
		}
	}
}

// TestStatusWithoutReason covers gateways and proxies that give no reason.
func TestStatusWithoutReason(t *testing.T) {
	w := newWorld(t)
	for code, exit := range map[connect.Code]int{
		connect.CodeUnavailable: 6, connect.CodeUnauthenticated: 6, connect.CodePermissionDenied: 3, connect.CodeInvalidArgument: 2,
		connect.CodeNotFound: 1, connect.CodeAlreadyExists: 7, connect.CodeUnimplemented: 1, connect.CodeInternal: 1, connect.CodeDeadlineExceeded: 6,
	} {
		w.gateway.change(func() { w.gateway.fail = connect.NewError(code, context.Canceled) })
		if r := w.run("status"); r.code != exit {
			t.Errorf("%s: exit code %d, want %d: %s", code, r.code, exit, r.err)
		}
	}
}

// TestErrorDomain: a reason of somebody else's enum is not ours.
func TestErrorDomain(t *testing.T) {
	w := newWorld(t)
	w.gateway.fail = connect.NewError(connect.CodeNotFound, context.Canceled)
	r := w.run("status")
	w.want(r, 1)
	if !strings.Contains(r.err, "[NOT_FOUND]") {
		t.Error(r.err)
	}
}

// plays makes a call do exactly these events.
func (w *world) plays(list ...*palyrav1.CallToolResponse) {
	w.gateway.play = func(_ context.Context, _ *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		return play(send, list...)
	}
}

// answered makes a call ask, and somebody else answer at once.
func (w *world) answered(state palyrav1.ApprovalState) {
	v := someApproval()
	w.gateway.asks(v, finished("succeeded", "", `{}`))
	inner := w.gateway.play
	w.gateway.play = func(ctx context.Context, req *palyrav1.CallToolRequest, send func(*palyrav1.CallToolResponse) error) error {
		return inner(ctx, req, func(m *palyrav1.CallToolResponse) error {
			err := send(m)
			if m.GetApprovalRequested() != nil {
				go w.gateway.change(func() { w.gateway.approvals[approvalID].State = state })
			}
			return err
		})
	}
}

func (w *world) pending() { w.gateway.approvals[approvalID] = someApproval() }

func (w *world) decided() {
	w.pending()
	w.gateway.approvals[approvalID].State = palyrav1.ApprovalState_APPROVAL_STATE_DENIED
}

func (w *world) write(name, text string) string {
	w.t.Helper()
	path := filepath.Join(w.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) config(text string) { w.write("config/palyra/palyra.toml", text) }

func decideArgs(args ...string) []string {
	return append([]string{"approvals", "decide", approvalID, "--digest", someApproval().GetCallDigest()}, args...)
}

// processJSON is a result as process.run gives it; an exit code below 0 is
// none.
func processJSON(code int, stdout, stderr string) string {
	stream := func(s string) object {
		return object{{"content", s}, {"encoding", "utf-8"}, {"total_bytes", len(s)}, {"truncated", false}}
	}
	body := object{{"stdout", stream(stdout)}, {"stderr", stream(stderr)}}
	if code >= 0 {
		body = append(body, member{"exit_code", code})
	}
	text, err := marshal(body)
	if err != nil {
		panic(err)
	}
	return string(text)
}
