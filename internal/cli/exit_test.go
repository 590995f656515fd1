package cli_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/reason"
)

// TestExitCodes reaches each exit code with a command line.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		code int
		set  func(w *clitest.World)
		args []string
		says string
	}{
		{"success", 0, nil, []string{"status"}, ""},
		{"not ready", 1, func(w *clitest.World) { w.Gateway.Ready = false }, []string{"status"}, ""},
		{"failure", 1, func(w *clitest.World) { w.Plays(clitest.Finished("failed", reason.FileNotFound, "")) }, []string{"call", "fs.read"}, "next: "},
		{"usage: command", 2, nil, []string{"aprovals"}, "Did you mean approvals?"},
		{"usage: subcommand", 2, nil, []string{"approvals", "lst"}, "Did you mean list?"},
		{"usage: flag", 2, nil, []string{"status", "--wat"}, "palyra status --help"},
		{"usage: argument", 2, nil, []string{"approvals", "show"}, "an argument is missing"},
		{"usage: too many", 2, nil, []string{"status", "now"}, "too many arguments"},
		{"usage: format", 2, nil, []string{"status", "-o", "jsn"}, "Did you mean json?"},
		{"usage: state", 2, nil, []string{"approvals", "list", "--state", "pendin"}, "Did you mean pending?"},
		{"usage: configuration", 2, func(w *clitest.World) { w.Config("[client]\nnonsense = 1\n") }, []string{"status"}, "nonsense"},
		{"policy denial", 3, func(w *clitest.World) { w.Plays(clitest.DeniedFor(reason.PolicyDenied, "no programs")) }, []string{"call", "process.run"}, "exec.none (20-exec.cedar:7)"},
		{"dry run denied", 3, nil, []string{"call", "never", "--dry-run"}, ""},
		{"approval denied", 4, func(w *clitest.World) { w.Answered(palyrav1.ApprovalState_APPROVAL_STATE_DENIED) }, []string{"call", "process.run"}, "ada denied"},
		{"approval expired", 5, func(w *clitest.World) { w.Answered(palyrav1.ApprovalState_APPROVAL_STATE_EXPIRED) }, []string{"call", "process.run"}, "in time"},
		{"not running", 6, func(w *clitest.World) { w.Env["PALYRA_ADDRESS"] = clitest.ClosedAddress }, []string{"status"}, "Start the gateway with `palyrad`"},
		{"no bundle", 6, func(w *clitest.World) { w.Env["PALYRA_CREDENTIALS"] = "" }, []string{"status"}, "Start the gateway on this machine"},
		{"not known", 6, func(w *clitest.World) {
			w.Gateway.Fail = clitest.GatewayError(connect.CodeUnauthenticated, reason.Unauthenticated, "the device was revoked", nil)
		}, []string{"status"}, "revoked"},
		{"conflict", 7, func(w *clitest.World) { w.Decided() }, clitest.DecideArgs("--allow", "once"), "changed_by: user:bob"},
		{"other digest", 7, func(w *clitest.World) { w.Pending() }, []string{"approvals", "decide", clitest.ApprovalID, "--allow", "once", "--digest", "sha256:" + strings.Repeat("0", 64)}, "DIGEST_MISMATCH"},
		{"verification", 8, func(w *clitest.World) { w.Write("bad.ndjson", "{}\n") }, []string{"journal", "verify", "bad.ndjson"}, "line 1"},
		{"old key set", 10, func(w *clitest.World) { w.Write("old.ndjson", w.Read("evidence/testdata/release-1/export.ndjson")) }, []string{"journal", "verify", "old.ndjson", "--keys", "evidence/testdata/release-1/keys.json"}, "version 1"},
		{"changed result", 8, func(w *clitest.World) {
			r := clitest.Finished("succeeded", "", `{"a":1}`)
			r.GetResult().ResultJson = []byte(`{"a":2}`)
			w.Plays(clitest.Allowed(), r)
		}, []string{"call", "echo"}, "does not match the recorded one"},
		{"no sandbox", 9, func(w *clitest.World) {
			w.Plays(clitest.Allowed(), clitest.Finished("refused", reason.SandboxUnavailable, ""))
		}, []string{"call", "process.run"}, "bubblewrap"},
		{"a change that waits", 11, func(w *clitest.World) {
			w.Gateway.Fail = clitest.GatewayError(connect.CodeFailedPrecondition, reason.ChangePending, "the change waits", map[string]string{"approval_id": clitest.ApprovalID})
		}, []string{"thaw"}, "the change waits"},
		{"deadline", 124, func(w *clitest.World) {
			w.Plays(clitest.Allowed(), clitest.Finished("timed_out", reason.TimedOut, clitest.ProcessJSON(-1, "half", "")))
		}, []string{"call", "process.run"}, "deadline"},
		{"tool's own exit code", 0, func(w *clitest.World) {
			w.Plays(clitest.Allowed(), clitest.Finished("succeeded", "", clitest.ProcessJSON(3, "", "no")))
		}, []string{"call", "process.run"}, ""},
	}
	reached := map[int]bool{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := clitest.NewWorld(t)
			if c.set != nil {
				c.set(w)
			}
			for i, arg := range c.args {
				if strings.HasSuffix(arg, ".ndjson") {
					c.args[i] = filepath.Join(w.Home, arg)
				}
			}
			r := w.Run(c.args...)
			w.Want(r, c.code)
			if !strings.Contains(r.Err, c.says) {
				t.Errorf("stderr does not say %q:\n%s", c.says, r.Err)
			}
			reached[c.code] = true
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		w := clitest.NewWorld(t)
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		w.Want(w.Within(ctx, printer.Streams{}, "status"), reason.ExitInterrupted)
		reached[reason.ExitInterrupted] = true
	})
	for _, row := range reason.ExitCodes {
		if !reached[row.Code] {
			t.Errorf("no case reaches exit code %d", row.Code)
		}
	}
}

// TestEveryReasonHasItsExitCode returns each reason from the gateway, and checks the exit code
// and the message.
func TestEveryReasonHasItsExitCode(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, row := range reason.Table {
		w.Gateway.Change(func() {
			w.Gateway.Fail = clitest.GatewayError(connect.CodeInternal, row.Code, "because", map[string]string{"remedy": "Do this.", "field": "x"})
		})
		r := w.Run("status")
		if r.Code != row.Exit {
			t.Errorf("%s: exit code %d, want %d", row.Code, r.Code, row.Exit)
		}
		want := "error: because [" + string(row.Code) + "]\n  field: x\nnext: Do this.\n"
		if r.Err != want || r.Out != "" {
			t.Errorf("%s: stdout %q, stderr %q, want %q", row.Code, r.Out, r.Err, want)
		}
	}
}

// TestStatusWithoutReason covers errors without a reason, as from older gateways and proxies.
func TestStatusWithoutReason(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for code, exit := range map[connect.Code]int{
		connect.CodeUnavailable: 6, connect.CodeUnauthenticated: 6, connect.CodePermissionDenied: 3, connect.CodeInvalidArgument: 2,
		connect.CodeNotFound: 1, connect.CodeAlreadyExists: 7, connect.CodeUnimplemented: 1, connect.CodeInternal: 1, connect.CodeDeadlineExceeded: 6,
	} {
		w.Gateway.Change(func() { w.Gateway.Fail = connect.NewError(code, context.Canceled) })
		if r := w.Run("status"); r.Code != exit {
			t.Errorf("%s: exit code %d, want %d: %s", code, r.Code, exit, r.Err)
		}
	}
}

// TestErrorDomain: an error without a reason of the gateway is printed with the name of its
// status code.
func TestErrorDomain(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	w.Gateway.Fail = connect.NewError(connect.CodeNotFound, context.Canceled)
	r := w.Run("status")
	w.Want(r, 1)
	if !strings.Contains(r.Err, "[NOT_FOUND]") {
		t.Error(r.Err)
	}
}

func TestPlainWords(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"policy", "snapshot", "sha256:12"}, "is not a valid digest"},
		{[]string{"call", "echo", "--session", "a b"}, "use at most 64 letters"},
		{append([]string{"approvals", "decide", clitest.ApprovalID, "--allow", "once", "--digest"}, "sha256:1"), "is not a valid digest"},
	} {
		if r := w.Run(c.args...); r.Code != 2 || !strings.Contains(r.Err, c.says) {
			t.Errorf("%v: exit code %d: %s", c.args, r.Code, r.Err)
		}
	}
}

// TestHelpOfNoCommand: the help of an unknown command reports that it is unknown.
func TestHelpOfNoCommand(t *testing.T) {
	t.Parallel()
	w := clitest.NewWorld(t)
	for word, known := range map[string]bool{"undo": false, "workspace": true} {
		r := w.Run(word, "--help")
		if strings.Contains(r.Err, "unknown command") == known || r.Out == "" {
			t.Errorf("palyra %s --help: %s", word, r.Err)
		}
	}
}
