//go:build linux

package egress

import (
	"embed"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

//go:embed testdata
var testdata embed.FS

// allowed returns the hosts that the sandboxes of most tests may reach.
func allowed() []string {
	list := []string{fmt.Sprintf("%s:%d", echoHost, echoPort)}
	for _, host := range []string{allowedHost, gitHost, npmHost, pypiHost} {
		list = append(list, host+":80", host+":443")
	}
	return list
}

// everything returns the hosts of the controls, which show that a denied host exists.
func everything() []string {
	return append(allowed(), deniedHost+":80", deniedHost+":443", literal4+":80", "["+literal6+"]:80")
}

// ground is the sandbox of one test, with a workspace.
type ground struct {
	*world
	runner *bubblewrap.Runner
	root   string
}

func newGround(t *testing.T) *ground { return newGroundOf(t, newWorld(t)) }

func newGroundOf(t *testing.T, w *world) *ground {
	t.Helper()
	dir := jailtest.Dir(t)
	config := bubblewrap.Config{Enabled: true, LayerDir: filepath.Join(dir, "layers"), QuarantineDir: filepath.Join(dir, "quarantine"), Outward: w.outward()}
	for _, name := range []string{config.LayerDir, config.QuarantineDir} {
		must.Do(t, os.Mkdir(name, 0o700))
	}
	r := must.Get(bubblewrap.New(config))(t)
	t.Cleanup(func() { must.Check(t, r.Close()) })
	return &ground{w, r, w.workspace(t)}
}

// trust makes the clients trust the tests' authority by a certificate file, as users do. Java
// and wget, which have no variable for it, get it as an argument.
func trust() []string {
	var env []string
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "PIP_CERT", "npm_config_cafile"} {
		env = append(env, name+"="+command.WorkspaceMount+"/ca.pem")
	}
	return env
}

// workspace creates a workspace with the clients and the authority's certificate.
func (w *world) workspace(t *testing.T) string {
	t.Helper()
	root := jailtest.Workspace(t)
	files := must.Get(testdata.ReadDir("testdata"))(t)
	for _, f := range files {
		text := must.Get(testdata.ReadFile("testdata/" + f.Name()))(t)
		jailtest.WriteFile(t, filepath.Join(root, f.Name()), string(text), 0o644)
	}
	jailtest.WriteFile(t, filepath.Join(root, "ca.pem"), string(w.authority), 0o644)
	jailtest.WriteFile(t, filepath.Join(root, "client"), string(goClient), 0o755)
	return root
}

// spec returns a run of a program with a grant for some hosts.
func (g *ground) spec(t *testing.T, hosts []string, argv ...string) sandbox.Spec {
	t.Helper()
	allow := must.Get(egress.ParseRules(hosts))(t)
	s := jailtest.Spec(t, g.root, argv...)
	s.Workspace = sandbox.CopyOnWrite
	s.Network = &egress.Reach{Rules: egress.Rules{Allow: allow}}
	s.Env = trust()
	return s
}

// run runs a program that prints lines, and returns these lines and the records of its
// connections.
func (g *ground) run(t *testing.T, s sandbox.Spec) (said, ledger []string, report sandbox.Report) {
	t.Helper()
	report = jailtest.Run(t, g.runner, s)
	if report.ExitCode == nil || *report.ExitCode != 0 {
		t.Errorf("ended with %s", jailtest.Ending(report))
	}
	return lines(string(report.Stdout.Head)), record(t, report), report
}

func lines(text string) []string { return strings.Split(strings.TrimRight(text, "\n"), "\n") }

// record formats the report's connections, one line for each, in order: leg, host and port,
// verdict and reason.
func record(t *testing.T, report sandbox.Report) []string {
	t.Helper()
	var lines []string
	for _, c := range report.Connections {
		target := c.Host
		if c.Leg != egress.LegName {
			target = net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
		}
		lines = append(lines, strings.TrimSpace(strings.Join([]string{c.Leg, target, c.Verdict, c.Reason}, " ")))
		checkEntry(t, c)
	}
	if report.ConnectionsMissed != 0 {
		t.Errorf("%d connections are not listed", report.ConnectionsMissed)
	}
	return lines
}

// checkEntry checks the invariants of every record.
func checkEntry(t *testing.T, c tool.Connection) {
	t.Helper()
	carried := c.Verdict == egress.VerdictAllowed && c.Leg != egress.LegName
	if carried && (c.Address == "" || c.Rule == "") || !carried && c.Leg != egress.LegName && c.BytesOut+c.BytesIn != 0 || c.Reason == egress.ReasonUnlisted && c.Address+c.Rule != "" {
		t.Errorf("entry %+v", c)
	}
	if c.Started < 0 || c.Duration < 0 {
		t.Errorf("the times of %+v", c)
	}
}

func expect(t *testing.T, what string, got, want []string, stderr sandbox.Stream) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s\nstderr: %.2000s", what, strings.Join(got, "\n"), strings.Join(want, "\n"), stderr.Head)
	}
}

// distinct removes duplicates from the records of a client that opens a varying number of
// connections.
func distinct(lines []string) []string { return slices.Compact(slices.Sorted(slices.Values(lines))) }
