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

// TestNoMoreDescriptors uses up all file descriptors of a palyrad with silent connections.
// Calls of connected clients are answered, new clients wait, and palyrad recovers once
// descriptors are free.
func TestNoMoreDescriptors(t *testing.T) {
	t.Parallel()
	d := prepare(t)
	const limit = 96 // palyrad itself uses about 40, including the files of sandboxes
	d.Wrap = []string{"prlimit", fmt.Sprintf("--nofile=%d:%d", limit, limit)}
	d.Start()
	early := d.dial()
	told := []reply{early.patch(t.Context(), "before")}
	succeeded(t, told...)

	bundle := must.Get(identity.ReadBundle(filepath.Join(d.State, "operator")))(t)
	var silent []net.Conn
	for range 2 * limit {
		// The kernel accepts connections that palyrad cannot accept yet.
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
