package dispatch_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// TestMisplacedSecretsRaiseAnAlarm: each misplaced secret is logged immediately, once per
// target. No call can flood the log.
func TestMisplacedSecretsRaiseAnAlarm(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := newLoggingWorld(t, &log)
	run := func(list ...tool.Connection) string {
		log.Reset()
		w.tool.Work = func(context.Context, tool.Call) tool.Report {
			return tool.Report{Outcome: tool.Succeeded, Egress: tool.Egress{Observed: list}}
		}
		w.Run(t.Context(), w.decide(t, w.proposal(t)))
		return log.String()
	}
	bad := tool.Connection{Host: "::1", Port: 443, Verdict: egress.VerdictDenied, Reason: egress.ReasonSecretMisplaced}
	got := run(bad, bad, tool.Connection{Host: "a.org", Port: 80, Verdict: egress.VerdictDenied, Reason: egress.ReasonSecretUnverified})
	for _, part := range []string{"level=WARN", `alarm=secret_misplaced host=[::1]:443`, `alarm=secret_unverified host=a.org:80`, "run=", "proposal="} {
		if !strings.Contains(got, part) {
			t.Errorf("the log lacks %s: %s", part, got)
		}
	}
	if n := strings.Count(got, "\n"); n != 2 {
		t.Errorf("%d lines for two targets: %s", n, got)
	}
	var many []tool.Connection
	for i := range 100 {
		bad.Port = i + 1
		many = append(many, bad)
	}
	if n := strings.Count(run(many...), "\n"); n != 8 {
		t.Errorf("%d lines for many targets", n)
	}
	// Control: other denials raise no alarm.
	if got := run(tool.Connection{Host: "x.org", Port: 443, Verdict: egress.VerdictDenied, Reason: egress.ReasonUnlisted}); got != "" {
		t.Errorf("a denied host raises an alarm: %s", got)
	}
}
