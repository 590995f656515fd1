package gateway

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/config"
	"palyra/internal/core/limit"
	"palyra/internal/core/must"
	"palyra/internal/gateway/gatewaytest"
)

// TestMetricsCount: the metrics count one allowed and one denied call.
func TestMetricsCount(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.AllowedTools = []string{"echo"}
	d := start(t, cfg)
	calls := palyrav1connect.NewGatewayServiceClient(d.client(), d.url())
	for tool, input := range map[string]string{"echo": `{"text":"hello"}`, "http.fetch": `{"url":"https://example.com/"}`} {
		stream := must.Get(calls.CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: tool, InputJson: []byte(input)}))(t)
		for stream.Receive() {
		}
		must.Do(t, stream.Err())
	}
	for _, want := range []string{
		`palyra_verdicts_total{reason="",verdict="allow"} 1`,
		`palyra_verdicts_total{reason="POLICY_DENIED",verdict="deny"} 1`,
		`palyra_decisions_total{decision="allow",reason=""} 1`,
		`palyra_decisions_total{decision="deny",reason="POLICY_DENIED"} 1`,
		`palyra_execution_seconds_count{executor="builtin",outcome="succeeded"} 1`,
		`palyra_rate_limit_refused_total{class="tool_call"} 0`, "palyra_sandbox_queue 0", "palyra_sandbox_queue_refused_total 0",
		`palyra_locked_keys{class="pairing"} 0`, `palyra_locked_keys{class="login"} 0`, "palyra_calls_under_way 0", "palyra_runs_active 0", "palyra_approvals_pending 0",
	} {
		d.eventually("/metrics", want)
	}
}

// TestRefusedRequestsAreShown: a request over its rate limit is counted, and the status names
// the limited class. Before, the status has no notice about limits.
func TestRefusedRequestsAreShown(t *testing.T) {
	t.Parallel()
	cfg := testConfig(t)
	cfg.RateLimits.Decide = config.RateLimit{PerSecond: 0.001, Burst: 1}
	d := start(t, cfg)
	limited := func() bool {
		status := must.Get(palyrav1connect.NewStatusServiceClient(d.client(), d.url()).GetStatus(t.Context(), &palyrav1.GetStatusRequest{}))(t)
		return slices.Contains(status.GetNotices(), "requests are refused by rate limits (decide)")
	}
	approvals := palyrav1connect.NewApprovalsServiceClient(d.client(), d.url())
	for _, over := range []bool{false, true} {
		_, err := approvals.DecideApproval(t.Context(), &palyrav1.DecideApprovalRequest{
			ApprovalId: "01JZZZZZZZZZZZZZZZZZZZZZZZ", Allow: true, ShownDigest: "sha256:" + strings.Repeat("0", 64),
		})
		if refused := connect.CodeOf(err) == connect.CodeResourceExhausted; refused != over || limited() != over {
			t.Errorf("DecideApproval: %v; status says that it is limited: %v, want %v", err, limited(), over)
		}
	}
	d.eventually("/metrics", `palyra_rate_limit_refused_total{class="decide"} 1`)
}

// TestLimitedNotice: the notice names only classes that are limited now.
func TestLimitedNotice(t *testing.T) {
	t.Parallel()
	now := time.Now()
	refused := map[limit.Class]limit.Refusals{
		"run": {Count: 1, Last: now}, "decide": {Count: 9, Last: now.Add(-59 * time.Second)}, "read": {Count: 5, Last: now.Add(-time.Hour)}, "mutate": {},
	}
	for _, c := range []struct {
		refused map[limit.Class]limit.Refusals
		locked  map[limit.Class]int
		waiting int
		want    string
	}{
		{nil, nil, 0, ""},
		{nil, map[limit.Class]int{"login": 0, "pairing": 2}, 0, "locked out after failures (pairing): 2"},
		{nil, nil, 3, "calls that wait for a program to end: 3"},
		{refused, nil, 0, "requests are refused by rate limits (decide, run)"},
		{refused, nil, 1, "requests are refused by rate limits (decide, run); calls that wait for a program to end: 1"},
	} {
		if got := limitedNotice(c.refused, c.locked, c.waiting, now); got != c.want {
			t.Errorf("limitedNotice = %q, want %q", got, c.want)
		}
	}
}

// eventually reads a page until it contains a line. Metrics follow the journal, and may be
// later than a response.
func (d *running) eventually(path, line string) {
	d.t.Helper()
	must.Eventually(d.t, path+" has "+line, func() (bool, string) {
		_, text := d.get(path)
		return strings.Contains(text, line+"\n"), regexp.MustCompile(`(?m)^(#|go_|process_).*\n`).ReplaceAllString(text, "")
	})
}

// TestMetricsAreBounded: the metrics need no credential, so their connections must not use up
// the descriptors of the API.
func TestMetricsAreBounded(t *testing.T) {
	t.Parallel()
	book := &gatewaytest.Log{}
	d := startWith(t, Options{Config: testConfig(t), Log: book.Logger()})
	fetch := func(conn net.Conn) error {
		must.Do(t, conn.SetDeadline(time.Now().Add(must.Patience)))
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+d.Metrics+"/metrics", nil))(t)
		if err := r.Write(conn); err != nil {
			return err
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), r)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, answer.Body)
		return errors.Join(err, answer.Body.Close())
	}
	// Other tests of this process may have one connection open.
	open := 0
	for ; open <= mostReaders; open++ {
		conn := must.Get(net.Dial("tcp", d.Metrics))(t)
		defer conn.Close()
		if fetch(conn) != nil {
			break
		}
	}
	if open < mostReaders/2 || open > mostReaders || book.Count("a connection to the metrics was refused") != 1 {
		t.Errorf("%d readers get metrics, want at most %d\n%s", open, mostReaders, book)
	}
}
