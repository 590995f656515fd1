//go:build linux

package fault

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/identity"
)

// TestNoMoreDescriptors takes all file descriptors of a palyrad with
// connections that say nothing: calls of clients that are connected get an
// answer, new clients wait, and once there is room everything goes on.
func TestNoMoreDescriptors(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	const limit = 96 // about 40 are palyrad's own, the files of sandboxes among them
	d.Wrap = []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", limit, limit)}
	d.Start()
	early := d.dial()
	told := []reply{early.patch(t.Context(), "before")}
	succeeded(t, told...)

	bundle := must.Get(identity.ReadBundle(filepath.Join(d.State, "operator")))(t)
	var silent []net.Conn
	for range 2 * limit {
		// The kernel takes connections that palyrad cannot accept yet.
		conn := must.Get((&net.Dialer{Timeout: must.Patience}).DialContext(t.Context(), "tcp", bundle.Address))(t)
		silent = append(silent, conn)
	}
	taken := time.Now()
	full := func() (bool, string) {
		open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.Cmd.Process.Pid))
		return err == nil && len(open) >= limit, fmt.Sprintf("%d descriptors, %v", len(open), err)
	}
	must.Eventually(t, "all descriptors are in use", full)
	must.Eventually(t, "the log says so", func() (bool, string) {
		return strings.Contains(d.Log().String(), "too many open files"), d.Log().String()
	})
	for n := range 20 {
		r := early.patch(t.Context(), fmt.Sprintf("during-%d", n))
		if code, next := codeOf(r.err); r.err != nil && (code == "" || next == "") {
			t.Errorf("a call of a client that is connected: %v", r.err)
		}
		told = append(told, r)
	}
	for _, conn := range silent {
		must.Check(t, conn.Close())
	}
	late := d.dial()
	began := time.Now()
	after := late.write(t.Context(), "after", true)
	succeeded(t, after, early.patch(t.Context(), "after-too"))
	t.Logf("a new client got its answer %v after there was room", time.Since(began).Round(time.Millisecond))
	minutes := int(time.Since(taken) / time.Minute)
	if n := strings.Count(d.Log().String(), "too many open files"); n > 2+minutes {
		t.Errorf("the log says %d times in %d minutes that there are no descriptors", n, minutes)
	}
	d.Stop()
	d.holds(append(told, after))
}
