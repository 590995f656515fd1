//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// waived lets the programs of these tests run unattended.
const waived = `@id("unattended")
@reason("these programs run unattended in the tests")
@waives("approval: the workspace is a temporary directory")
permit(principal, action == Action::"tool.execute/process.run", resource) when { context.egress.mode != "none" };
`

// TestExitCodes reaches the exit codes of palyra with a running daemon. Code 5 requires the
// shortest timeout of an approval, 30 seconds; the tests of internal/cli cover it.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", waived+`@id("no-web") @remedy("Read a file instead.") forbid(principal, action == Action::"tool.execute/http.fetch", resource);`)
	g.Start()
	c := g.local()
	write := []string{"call", "fs.write", "path=b.txt", "content=new"}
	for _, one := range []struct {
		name string
		code int
		says []string
		run  func() process.Result
	}{
		{"a result", 0, nil, func() process.Result { return c.run("call", "echo", "text=hi") }},
		{"a program that fails by itself", 0, nil, func() process.Result {
			return c.run("call", "process.run", `argv=["ls","no-such-file"]`)
		}},
		{"a tool that fails", 1, []string{"FILE_NOT_FOUND", "next: "}, func() process.Result { return c.run("call", "fs.read", "path=no-such-file") }},
		{"an unknown flag", 2, []string{"--help"}, func() process.Result { return c.run("status", "--wat") }},
		{"an unknown property", 2, []string{"INVALID_INPUT", "nope"}, func() process.Result { return c.run("call", "echo", "nope=1") }},
		{"a forbidden tool", 3, []string{"POLICY_DENIED", "no-web", "Read a file instead."}, func() process.Result {
			return c.run("call", "http.fetch", "url=https://example.com/")
		}},
		{"a forbidden tool, looked at", 0, []string{"POLICY_DENIED", "no-web", "Read a file instead."}, func() process.Result {
			r := c.run("tools", "show", "http.fetch")
			return process.Result{Code: r.Code, Err: r.Out}
		}},
		{"a denied approval", 4, []string{"APPROVAL_DENIED", "not today"}, func() process.Result {
			call := c.begin(write...)
			c.deny(call.asked()).Want(g.T, 0)
			return call.wait()
		}},
		{"a denied approval, asked again at once", 4, []string{"APPROVAL_DENIED"}, func() process.Result { return c.run(write...) }},
		{"no gateway there", 6, []string{"NOT_CONNECTED", "palyrad"}, func() process.Result { return c.run("--address", "127.0.0.1:1", "status") }},
		{"no credential", 6, []string{"NOT_CONNECTED"}, func() process.Result {
			return c.run("--credentials", filepath.Join(g.Dir, "nobody"), "status")
		}},
		{"a vote for another call", 7, []string{"DIGEST_MISMATCH"}, func() process.Result {
			call := c.begin("call", "fs.write", "path=c.txt", "content=new")
			a := call.asked()
			r := c.allow(process.Ask{ID: a.ID, Digest: "sha256:" + strings.Repeat("0", 64)})
			c.allow(a).Want(g.T, 0)
			call.wait().Want(g.T, 0)
			return r
		}},
		{"a vote that comes second", 7, []string{"APPROVAL_CONFLICT"}, func() process.Result {
			call := c.begin("call", "fs.write", "path=d.txt", "content=new")
			a := call.asked()
			c.allow(a).Want(g.T, 0)
			call.wait().Want(g.T, 0)
			return c.allow(a)
		}},
		{"a changed journal", 8, []string{"VERIFICATION_FAILED", "line 1"}, func() process.Result {
			path := filepath.Join(g.Dir, "bad.ndjson")
			g.write(path, "{}\n")
			return c.run("journal", "verify", path)
		}},
		{"a deadline", 124, []string{"TIMED_OUT"}, func() process.Result {
			return c.run("call", "process.run", `argv=["sleep","60"]`, "timeout_ms=300")
		}},
	} {
		g.sub(one.name, func(t *testing.T) { one.run().Want(t, one.code, one.says...) })
	}
}

// TestNoSandbox: a palyrad without its sandbox helper serves everything except programs.
func TestNoSandbox(t *testing.T) {
	t.Parallel()
	program := must.Get(withoutHelper())(t)
	g := newGateway(t)
	g.Program = program
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	touch := []string{"call", "process.run", `argv=["touch","ran"]`}
	c.run(touch...).Want(t, 9, "SANDBOX_UNAVAILABLE", "next: ")
	if _, err := os.Stat(filepath.Join(g.Workspace, "ran")); !os.IsNotExist(err) {
		t.Errorf("the program ran without a sandbox: %v", err)
	}
	c.ok("call", "fs.read", "path=a.txt")

	// Control: with the helper, the same call runs.
	g.Stop()
	g.Program = filepath.Join(programs, "palyrad")
	g.Start()
	c.ok(touch...)
	if _, err := os.Stat(filepath.Join(g.Workspace, "ran")); err != nil {
		t.Error(err)
	}
}
