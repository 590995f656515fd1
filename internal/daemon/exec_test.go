package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"palyra/internal/egress"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
)

// executed is what `palyrad sandbox exec` came to.
type executed struct {
	code        int
	err         error
	out, errOut string
}

// sandboxExec runs the command with a standard input.
func sandboxExec(t *testing.T, stdin string, args ...string) executed {
	t.Helper()
	var out, errOut bytes.Buffer
	c := Command(&out, &errOut)
	c.SetIn(strings.NewReader(stdin))
	c.SetArgs(append([]string{"sandbox", "exec"}, args...))
	err := c.ExecuteContext(t.Context())
	e := executed{err: err, out: out.String(), errOut: errOut.String()}
	var exit ExitError
	if errors.As(err, &exit) {
		e.code, e.err = exit.Code, exit.Err
	} else if err != nil {
		t.Fatalf("%v has no exit code of its own: %v", args, err)
	}
	return e
}

// TestExecRefuses: what is wrong with the command line is palyrad's own failure,
// 125, and nothing runs.
func TestExecRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct {
		args []string
		says string
		code reason.Code
	}{
		{nil, "name the program", reason.InvalidInput},
		{[]string{"--nope", "--", "true"}, "unknown flag", reason.InvalidInput},
		{[]string{"--config", "palyra.toml", "--", "true"}, "unknown flag", reason.InvalidInput}, // it reads none
		{[]string{"--tier", "a", "--", "true"}, "want b or c", reason.InvalidInput},
		{[]string{"--egress", "some", "--", "true"}, "egress mode", reason.InvalidInput},
		{[]string{"--allow", "example.org", "--", "true"}, "names no port", reason.HostInvalid},
		{[]string{"--allow", "localhost:8080", "--", "true"}, "programs connect to the address of localhost:8080", reason.HostInvalid},
		{[]string{"--allow", "https://example.org", "--", "true"}, "it is a URL", reason.HostInvalid},
		{[]string{"--allow", "example.org:443", "--deny", "0x7f.1", "--", "true"}, "neither a name nor an IP address", reason.HostInvalid},
		{[]string{"--deny", "example.org:443", "--", "true"}, "needs --allow", reason.InvalidInput},
		{[]string{"--egress", "preflight", "--allow", "127.0.0.1:80", "--deny", "example.org", "--", "true"}, "and --egress strict", reason.InvalidInput},
		{[]string{"--egress", "unrestricted", "--allow", "example.org:443", "--", "true"}, "checks nothing", reason.InvalidInput},
		{[]string{"--egress", "preflight", "--allow", "169.254.169.254:80", "--", "true"}, "not public", reason.EgressDenied},
		{[]string{"--egress", "preflight", "--allow", "example.org", "--", "true"}, "", reason.HostInvalid},
		{[]string{"--cow", "--", "true"}, "about a --workspace", reason.InvalidInput},
		{[]string{"--workspace", dir, "--cow", "--read-only", "--", "true"}, "exclude each other", reason.InvalidInput},
		{[]string{"--workspace", dir, "--commit", "yes", "--", "true"}, "about the changes of --cow", reason.InvalidInput},
		{[]string{"--workspace", dir, "--cow", "--commit", "maybe", "--", "true"}, "want no, yes or ask", reason.InvalidInput},
		{[]string{"--workspace", filepath.Join(dir, "none"), "--", "true"}, "--workspace", reason.WorkspaceScope},
		{[]string{"--limit", "memory=lots", "--", "true"}, "want a number", reason.InvalidInput},
		{[]string{"--limit", "hope=1", "--", "true"}, "no such limit", reason.InvalidInput},
		{[]string{"--limit", "memory=1k", "--", "true"}, "must be at least", reason.InvalidInput},
		{[]string{"--", "no-such-program"}, "was not found", reason.SpawnFailed},
	} {
		e := sandboxExec(t, "", row.args...)
		if e.code != execFailed || reason.Of(e.err) != row.code || !strings.Contains(e.err.Error(), row.says) {
			t.Errorf("%v: code %d, %v", row.args, e.code, e.err)
		}
	}
}

func TestExecOptions(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o := execOptions{tier: "b", egress: "unrestricted", workspace: dir, cow: true, commit: "no", timeout: time.Minute, limits: []string{"cpu=3s", "memory=512m", "processes=64", "open_files=32", "disk=1g"}}
	run, err := o.parse([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	o.egress, o.allow, o.deny = "strict", []string{"*.example.org:443", "127.0.0.1:8080"}, []string{"evil.example.org"}
	reaching, err := o.parse([]string{"true"})
	if err != nil {
		t.Fatal(err)
	}
	if g := reaching.spec.Network; g == nil || !slices.Equal(g.Hosts(), []string{"*.example.org:443", "127.0.0.1:8080"}) || len(g.Rules.Deny) != 1 || run.spec.Network != nil {
		t.Errorf("the network is %+v", g)
	}
	s := run.spec
	want := sandbox.Limits{Wall: time.Minute, CPU: 3 * time.Second, Memory: 512 << 20, Processes: 64, OpenFiles: 32, Disk: 1 << 30, Output: 16 << 20}
	if s.Limits != want || s.Egress != egress.Unrestricted || s.Workspace != sandbox.CopyOnWrite || s.WorkspaceRoot != dir || run.cfg.ProcessRunner.Prepared != 0 || lowest(run.cfg.ProcessRunner) != sandbox.Landlocked {
		t.Errorf("%+v, %+v", s, run.cfg.ProcessRunner)
	}
}

func TestParseSize(t *testing.T) {
	for text, want := range map[string]int64{"1": 1, "64k": 64 << 10, "512M": 512 << 20, "2g": 2 << 30, "0": 0, "-1": 0, "": 0, "k": 0, "1t": 0, "99999999999g": 0} {
		got, err := parseSize(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

// TestPipedInput: a terminal and /dev/null are nobody who sends, and more than
// the bound is refused.
func TestPipedInput(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
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

// TestAppArmorProfileIsDocumented: doctor and document print the same text.
func TestAppArmorProfileIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/sandbox.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "```\n"+appArmorProfile+"```") {
		t.Error("docs/sandbox.md has another AppArmor profile than the doctor")
	}
	if got := profileFor("/opt/palyrad"); !strings.Contains(got, "profile palyrad /opt/palyrad flags=(unconfined) {") {
		t.Errorf("the profile is\n%s", got)
	}
}
