//go:build linux

package fault

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// agentOn adds an agent to a running palyrad and returns its client.
func (d *daemon) agentOn(name string) *client {
	d.T.Helper()
	dir := filepath.Join(d.Dir, name)
	// The command runs in the mount namespace of the daemon: SQLite resolves the link /proc/PID/root.
	within := *d
	within.view = ""
	enter := []string{"nsenter", "--target", strconv.Itoa(d.Cmd.Process.Pid), "--mount"}
	if os.Geteuid() != 0 {
		enter = append(enter, "--user", "--preserve-credentials")
	}
	if r := within.wrapped(enter, "palyrad", "operator", "add", name, "--owner", "local", "--out", dir); r.Code != 0 {
		d.T.Fatalf("adding the agent: %s", r.Err)
	}
	bundle := must.Get(identity.ReadBundle(dir))(d.T)
	c := newClient(bundle)
	d.T.Cleanup(c.transport.CloseIdleConnections)
	return c
}

// big makes an echo call of size bytes; each call has different bytes.
func (c *client) big(ctx context.Context, n, size int) reply {
	text := strings.Repeat(fmt.Sprintf("%08d", n), size/8)
	return c.call(ctx, "echo", "", map[string]string{"text": text}, false)
}

// flooded makes calls of an agent with large inputs until one is refused, and returns the
// reason code.
func flooded(t *testing.T, agent *client) string {
	t.Helper()
	for n := range 1000 {
		if r := agent.big(t.Context(), n, 1000<<10); r.err != nil {
			code, next := codeOf(r.err)
			if next == "" {
				t.Errorf("the refusal has no next step: %v", r.err)
			}
			t.Logf("refused after %d calls: %v", n, r.err)
			return code
		}
	}
	t.Fatal("1000 calls of 1 MB went through on a disk of 200 MB")
	return ""
}

// TestFloodEndsAtTheReserve: an agent that floods a disk of 200 MB is refused, and another
// program then uses up the rest of the disk. Votes, freeze, thaw, revocation and an operator's
// calls still work; the agent's calls do not.
func TestFloodEndsAtTheReserve(t *testing.T) {
	t.Parallel()
	d, disk := onSmallDiskWith(t, "200m", "")
	disk.take(t, 150<<20) // data that was there before
	operator := d.dial()
	agent := d.agentOn("flooder")
	// The call waits for approval while the disk fills.
	asked := make(chan string, 1)
	waits := d.dial()
	waits.asked = asked
	waiting := make(chan reply, 1)
	go func() { waiting <- waits.write(t.Context(), "waits", false) }()
	approval := <-asked

	if code := flooded(t, agent); code != "JOURNAL_UNAVAILABLE" {
		t.Errorf("the flood ended with %s", code)
	}
	disk.fill(t)
	for n := range 40 {
		if code, _, msg := d.cli("call", "echo", fmt.Sprintf("text=still here %d", n)); code != 0 {
			t.Fatalf("an operator's call %d: exit code %d: %s", n, code, msg)
		}
	}
	if code, text := d.readyz(); code != http.StatusServiceUnavailable || !strings.Contains(text, "nearly full") {
		t.Errorf("readyz: %d %s", code, text)
	}
	// A client with the same credential that is not the command line does not count as a terminal,
	// and neither does a call of a run.
	if r := operator.big(t.Context(), 0, 64); r.err == nil {
		t.Error("a call by the API used the reserve")
	}
	if code, _, _ := d.cli("call", "echo", "text=x", "--run", "r1"); code == 0 {
		t.Error("a call of a run used the reserve")
	}
	if r := agent.big(t.Context(), 1, 64); r.err == nil {
		t.Error("the agent's call went through")
	}
	ask := must.Get(operator.approvals.GetApproval(t.Context(), &palyrav1.GetApprovalRequest{ApprovalId: approval}))(t)
	vote := &palyrav1.DecideApprovalRequest{ApprovalId: approval, ShownDigest: ask.GetApproval().GetCallDigest(), Reason: "no"}
	if _, err := operator.approvals.DecideApproval(t.Context(), vote); err != nil {
		t.Errorf("a vote: %v", err)
	}
	for _, order := range [][]string{{"freeze", "--reason", "flood"}, {"thaw"}, {"status"}} {
		if code, out, msg := d.cli(order...); code != 0 && order[0] != "status" {
			t.Errorf("%s: exit code %d: %s", order[0], code, msg)
		} else if order[0] == "status" && !strings.Contains(out, "reserve for operators") {
			t.Errorf("the status does not say how much of the reserve is left:\n%s", out)
		}
	}
	disk.free(t)
	must.Eventually(t, "the reserve is whole again", func() (bool, string) {
		text := d.metric("palyra_reserve_bytes")
		return text == d.metric("palyra_reserve_size_bytes") && text != "0", text
	})
	<-waiting
}

// TestFloodWithoutAReserve is the control: without the reserve, the same operator cannot call,
// vote or freeze.
func TestFloodWithoutAReserve(t *testing.T) {
	t.Parallel()
	d, disk := onSmallDiskWith(t, "200m", "[storage]\nreserve_bytes = 0\n")
	disk.take(t, 150<<20)
	flooded(t, d.agentOn("flooder"))
	disk.fill(t)
	operator := d.dial()
	full := false
	for n := 0; n < 5000 && !full; n++ { // the allocated space can still hold some data
		full = operator.big(t.Context(), n, 64).err != nil
	}
	for _, order := range [][]string{{"call", "echo", "text=still here"}, {"freeze"}} {
		if code, _, _ := d.cli(order...); code == 0 {
			t.Errorf("without a reserve %q was recorded on a full disk", order)
		}
	}
}

// metric returns the value of a metric without labels.
func (d *daemon) metric(name string) string {
	d.T.Helper()
	_, text := d.get("/metrics")
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
