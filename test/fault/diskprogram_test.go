//go:build linux

package fault

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
)

// programsRun lets process.run run without approval.
const programsRun = `@id("programs")
@reason("process.run runs unattended in this test")
@waives("approval: the workspace is a temporary directory")
permit(principal, action == Action::"tool.execute/process.run", resource) when { context.egress.mode != "none" };
`

// diskFiller fills the disk of its workspace with files, half of them without a name.
const diskFiller = `kept, chunk, i = [], bytes(4 << 20), 0
import os
while True:
    i += 1
    kept.append(open("f%d" % i, "wb"))
    if i % 2:
        os.unlink(kept[-1].name)
    for _ in range(8):
        kept[-1].write(chunk)
    kept[-1].flush()
`

// TestProgramsThatFillTheDisk: two programs fill palyrad's disk, again and again. Each is ended,
// and 200 further calls are recorded meanwhile.
func TestProgramsThatFillTheDisk(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	d := prepare(t)
	must.Write(t, d.Policies+"/20.cedar", programsRun)
	text := string(must.Get(os.ReadFile(d.Config))(t))
	enabled := strings.Replace(text, "enabled = false", fmt.Sprintf("enabled = true\nallow_interpreters = true\nmax_concurrent = 2\ndisk_limit_bytes = %d", 1<<40), 1)
	if enabled == text {
		t.Fatal("the configuration has no line that disables programs")
	}
	must.Write(t, d.Config, enabled)
	must.Write(t, d.Workspace+"/filler.py", diskFiller)
	must.Do(t, os.Mkdir(d.State, 0o700))
	d.Wrap = inNamespace(t, d.State, "1g")
	d.Start()
	d.view = fmt.Sprintf("/proc/%d/root", d.Cmd.Process.Pid)
	c := d.dial()

	const fillers, least = 2, 3
	stop := make(chan struct{})
	var running sync.WaitGroup
	ended := make([][]reply, fillers)
	for i := range ended {
		running.Go(func() {
			for n := 0; n < least || !closed(stop); n++ {
				ended[i] = append(ended[i], c.call(t.Context(), "process.run", "", map[string]any{"argv": []string{"python3", "filler.py"}}, false))
			}
		})
	}
	var told []reply
	for n := range 200 {
		told = append(told, c.patch(t.Context(), fmt.Sprintf("meanwhile-%d", n)))
	}
	close(stop)
	running.Wait()
	succeeded(t, told...)
	for i, replies := range ended {
		for _, r := range replies {
			if r.err != nil || r.outcome != "failed" || r.reason != "QUOTA_EXCEEDED" {
				t.Errorf("filler %d: outcome %q, reason %q, %v", i, r.outcome, r.reason, r.err)
			}
		}
	}
	d.Stop()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
