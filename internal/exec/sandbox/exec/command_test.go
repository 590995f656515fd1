package exec

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/ladder"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	o := options{tier: "b", egress: "unrestricted", workspace: dir, cow: true, commit: "no", timeout: time.Minute, limits: []string{"cpu=3s", "memory=512m", "processes=64", "open_files=32", "disk=1g"}}
	run := must.Get(o.parse([]string{"true"}))(t)
	o.egress, o.allow, o.deny = "strict", []string{"*.example.org:443", "127.0.0.1:8080"}, []string{"evil.example.org"}
	reaching := must.Get(o.parse([]string{"true"}))(t)
	if g := reaching.spec.Network; g == nil || !slices.Equal(g.Hosts(), []string{"*.example.org:443", "127.0.0.1:8080"}) || len(g.Rules.Deny) != 1 || run.spec.Network != nil {
		t.Errorf("the network is %+v", g)
	}
	s := run.spec
	want := sandbox.Limits{Wall: time.Minute, CPU: 3 * time.Second, Memory: 512 << 20, Processes: 64, OpenFiles: 32, Disk: 1 << 30, Output: 16 << 20}
	if s.Limits != want || s.Egress != egress.Unrestricted || s.Workspace != sandbox.CopyOnWrite || s.WorkspaceRoot != dir || run.runner.Prepared != 0 || ladder.Lowest(run.runner) != sandbox.Landlocked {
		t.Errorf("%+v, %+v", s, run.runner)
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "64k": 64 << 10, "512M": 512 << 20, "2g": 2 << 30, "0": 0, "-1": 0, "": 0, "k": 0, "1t": 0, "99999999999g": 0} {
		got, err := parseSize(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// TestPipedInput: a terminal and /dev/null send no data, and input beyond the limit is refused.
func TestPipedInput(t *testing.T) {
	t.Parallel()
	null := must.Get(os.Open(os.DevNull))(t)
	defer null.Close()
	if got, err := pipedInput(null); got != nil || err != nil {
		t.Errorf("/dev/null gives %q, %v", got, err)
	}
	if got, err := pipedInput(strings.NewReader("sent")); string(got) != "sent" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := pipedInput(bytes.NewReader(make([]byte, mostInput+1))); reason.Of(err) != reason.InvalidInput {
		t.Errorf("too much gives %v", err)
	}
}
