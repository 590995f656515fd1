package conformance

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// installedIn names the variable that `make conformance` sets to the directory with the suites.
const installedIn = "TEST_PALYRA_CONFORMANCE"

// runs lists the suites, each with a revision that it supports.
var runs = []struct{ suite, revision string }{
	{"stable", "2025-06-18"}, {"stable", "2025-11-25"},
	{"alpha", "2025-06-18"}, {"alpha", "2025-11-25"}, {"alpha", "2026-07-28"},
}

// beyond maps the scenarios that no gateway can pass like the server to the reason, in the
// words of docs/mcp.md.
var beyond = map[string]string{
	"server-sse-polling": "it checks the stream of an answer, and the gateway may answer in JSON",
}

// TestConformance runs each suite twice, directly and through the gateway, and prints the
// checks of each scenario. Each scenario of beyond must pass fewer checks through the gateway;
// no other scenario may.
func TestConformance(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(installedIn)
	if dir == "" {
		t.Skip("`make conformance` runs it")
	}
	ran, seen := 0, map[string]bool{}
	for _, r := range runs {
		t.Run(r.suite+"/"+r.revision, func(t *testing.T) {
			// Only the older revisions have sessions. Each run has its own gateway, because the suite
			// ends no session and the number of sessions is limited.
			server := everything(t, r.revision >= "2026")
			through := gateway(t, server)
			direct, got := suite(t, filepath.Join(dir, r.suite), r.revision, server), suite(t, filepath.Join(dir, r.suite), r.revision, through)
			lost := show(r.suite+" "+r.revision, direct, got)
			if len(direct) == 0 {
				t.Fatal("the suite ran no scenario")
			}
			ran++
			lost = slices.DeleteFunc(lost, func(name string) bool {
				_, known := beyond[name]
				seen[name] = seen[name] || known
				return known
			})
			if len(lost) > 0 {
				t.Errorf("lost through the gateway: %s", strings.Join(lost, ", "))
			}
		})
	}
	for name := range beyond {
		if ran == len(runs) && !seen[name] {
			t.Errorf("%s passes through the gateway: take it off the list, and out of docs/mcp.md", name)
		}
	}
}

// TestUnsupportedFeatures: docs/mcp.md lists exactly the features that a gateway cannot
// support.
func TestUnsupportedFeatures(t *testing.T) {
	t.Parallel()
	text := string(must.Get(os.ReadFile("../../docs/mcp.md"))(t))
	_, part, ok := strings.Cut(text, "\n## Conformance\n")
	if !ok {
		t.Fatal("docs/mcp.md has no section about conformance")
	}
	part, _, _ = strings.Cut(part, "\n## ")
	got := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^- `([\\w-]+)`: (.+)\\.$").FindAllStringSubmatch(part, -1) {
		got[m[1]] = m[2]
	}
	if !maps.Equal(got, beyond) {
		t.Errorf("docs/mcp.md says %v", got)
	}
}

// everything starts the test server of the official Go SDK.
func everything(t *testing.T, stateless bool) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "everything-server")
	build := exec.Command("go", "build", "-o", program, "github.com/modelcontextprotocol/go-sdk/conformance/everything-server")
	if r := process.Finish(t, build); r.Code != 0 {
		t.Fatalf("the server of the SDK does not build: %s", r.Err)
	}
	const address = "127.0.0.1:18701"
	c := process.Begin(t, exec.Command(program, "-http", address, fmt.Sprintf("-stateless=%v", stateless)))
	if c.Err.Await(regexp.MustCompile("listening at"), c.Ended) == nil {
		t.Fatalf("the server did not start: %s", c.Err)
	}
	return "http://" + address + "/"
}

// policies lets every call of the server run, because the test is about the transport. It hides
// the gateway's own tools, which the suite does not expect.
const policies = `
@id("test.server")
@reason("a test")
forbid(principal, action in Action::"tool.execute", resource)
unless { resource in Server::"sdk" };

@id("test.free")
@reason("a test")
@waives("approval: a test")
permit(principal, action in Action::"tool.execute", resource)
when { context.egress.mode != "none" };
`

// gateway starts a palyrad in front of the server, and returns the URL for the suite.
func gateway(t *testing.T, server string) string {
	t.Helper()
	dir, host := t.TempDir(), strings.Trim(strings.TrimPrefix(server, "http://"), "/")
	p := process.NewPalyrad(t, must.Get(filepath.Abs("../../bin/palyrad"))(t), dir)
	must.Do(t, os.WriteFile(filepath.Join(p.Policies, "test.cedar"), []byte(policies), 0o600))
	// This test has its own loopback interface, so every port is free.
	const api, agents = "127.0.0.1:17443", "127.0.0.1:17145"
	must.Do(t, os.WriteFile(p.Config, fmt.Appendf(nil, `state_dir = %q
[listen]
api = %q
metrics = ""
console = ""
agents = %q
[policy]
dir = %q
[process_runner]
allowed_egress_hosts = [%q]
# The suite calls faster than any agent.
[rate_limits.tool_call]
per_second = 1000
burst = 1000
`, p.State, api, agents, p.Policies, host), 0o600))
	p.Start()
	palyra := func(args ...string) process.Result {
		cmd := exec.Command("../../bin/palyra", append([]string{"--config", p.Config}, args...)...)
		cmd.Env = process.Environment(dir)
		r := process.Finish(t, cmd)
		r.Want(t, 0)
		return r
	}
	palyra("mcp", "add", "sdk", "--url", server)
	add := exec.Command("../../bin/palyrad", "--config", p.Config, "operator", "add", "suite", "--owner", "local", "--role", "agent", "--out", filepath.Join(dir, "suite"))
	add.Env = process.Environment(dir)
	process.Finish(t, add).Want(t, 0)
	made := palyra("tokens", "create", "suite", "--for", "agent:suite", "--scope", "tool.call")
	token := regexp.MustCompile(`pal_\w+`).FindString(made.Out + made.Err)
	return shim(t, "http://"+agents+"/mcp", token)
}

// summary matches a scenario in the summary that the suite prints last.
var summary = regexp.MustCompile(`(?m)^\s*[✓✗] ([\w-]+): (\d+) passed, (\d+) failed`)

// result counts the checks of a scenario. A check that ends with a warning is in neither.
type result struct{ passed, failed int }

func (r result) String() string {
	if r.failed > 0 {
		return fmt.Sprintf("%d passed, %d failed", r.passed, r.failed)
	}
	return fmt.Sprintf("%d passed", r.passed)
}

// suite runs all scenarios of a revision against a server.
func suite(t *testing.T, dir, revision, server string) map[string]result {
	t.Helper()
	bin := must.Get(filepath.Abs(filepath.Join(dir, "node_modules", ".bin")))(t)
	cmd := exec.Command(filepath.Join(bin, "conformance"), "server", "--url", server, "--spec-version", revision, "--suite", "all", "-o", t.TempDir())
	cmd.Env = append(process.Environment(t.TempDir()), "PATH="+bin+":/usr/bin:/bin")
	r, out := process.Begin(t, cmd), map[string]result{}
	select {
	case <-r.Ended:
	case <-time.After(10 * time.Minute):
		t.Fatalf("the suite does not end: %s", r.Out)
	}
	for _, m := range summary.FindAllStringSubmatch(r.Out.String(), -1) {
		passed, err := strconv.Atoi(m[2])
		must.Do(t, err)
		failed, err := strconv.Atoi(m[3])
		must.Do(t, err)
		out[m[1]] = result{passed, failed}
	}
	if len(out) == 0 {
		t.Logf("%s\n%s", r.Out, r.Err)
	}
	return out
}

// show prints both tables next to each other. It returns the lost scenarios, which pass fewer
// checks through the gateway or fail only through it.
func show(title string, direct, through map[string]result) (lost []string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "%s\tdirectly\tthrough the gateway\t\n", title)
	for _, name := range slices.Sorted(maps.Keys(direct)) {
		note := ""
		if got := through[name]; got.passed < direct[name].passed || got.failed > 0 && direct[name].failed == 0 {
			note, lost = "LOST", append(lost, name)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", name, direct[name], through[name], note)
	}
	_ = w.Flush()
	return lost
}

// TestLostScenarios: a scenario is lost when fewer of its checks pass through the gateway, whether the
// others fail, end with a warning or do not run.
func TestLostScenarios(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		direct, through result
		lost            bool
	}{
		"equal":                        {result{30, 0}, result{30, 0}, false},
		"fewer checks":                 {result{30, 0}, result{28, 0}, true},
		"not run":                      {result{2, 0}, result{}, true},
		"one fails":                    {result{2, 0}, result{2, 1}, true},
		"more checks":                  {result{2, 0}, result{3, 0}, false},
		"fails directly, too":          {result{2, 1}, result{2, 1}, false},
		"fewer where it fails already": {result{2, 1}, result{1, 1}, true},
	} {
		if lost := show(name, map[string]result{"s": c.direct}, map[string]result{"s": c.through}); (len(lost) == 1) != c.lost {
			t.Errorf("%s: lost %v", name, lost)
		}
	}
}
