//go:build unix

package upstream_test

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
)

func dup(f *os.File) (*os.File, error) {
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "stdin"), nil
}

// TestCall: a call of an upstream server goes through the pipeline like any other, on an instance
// that the attestation names, and that later calls share.
func TestCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	state := w.add("greeter", serve())
	if len(state.Approved.Definitions) != 2 || state.Problem != "" || state.Approved.Protocol == "" {
		t.Fatalf("state %+v", state)
	}
	r := w.works("greeter/hello", `{"name":"ann"}`)
	if got := resultText(t, r); got != "hello ann" {
		t.Errorf("result %s", r.Result)
	}
	if r.Executor.Name != tool.MCPUpstream || !strings.HasPrefix(r.Executor.Instance, "greeter/") || r.Isolation == nil || r.Executor.Tier != "c" {
		t.Errorf("report %+v", r.Executor)
	}
	again := w.works("greeter/hello", `{"name":"bob"}`)
	if again.Executor.Instance != r.Executor.Instance || w.runner.started() != 2 { // one for the inspection, one for calls
		t.Errorf("%s and %s, %d started", r.Executor.Instance, again.Executor.Instance, w.runner.started())
	}
	must.Do(t, w.Remove(t.Context(), operator, "greeter"))
	w.fails("greeter/hello", `{}`, "UNKNOWN_TOOL")
}
