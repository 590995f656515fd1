//go:build linux

package egress

import (
	"fmt"
	"slices"
	"testing"

	"palyra/internal/exec/sandbox/jail/jailtest"
)

// TestToolsReachTheirServers: git, npm and pip work over IPv4 and IPv6, and their hosts are
// recorded. The number of connections varies.
func TestToolsReachTheirServers(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, test := range []struct {
		argv       []string // after the family
		says       []string
		host, port string
	}{
		{argv: []string{"git.sh", "http://" + gitHost + "/tiny.git"}, says: []string{"cloned"}, host: gitHost, port: "80"},
		{argv: []string{"git.sh", "https://" + gitHost + "/tiny.git"}, says: []string{"cloned"}, host: gitHost, port: "443"},
		{argv: []string{"npm.sh", "http://" + npmHost + "/"}, says: []string{"1.0.0", "installed"}, host: npmHost, port: "80"},
		{argv: []string{"npm.sh", "https://" + npmHost + "/"}, says: []string{"1.0.0", "installed"}, host: npmHost, port: "443"},
		{argv: []string{"pip.sh", "http://" + pypiHost + "/simple", "--trusted-host", pypiHost}, says: []string{"downloaded"}, host: pypiHost, port: "80"},
		{argv: []string{"pip.sh", "https://" + pypiHost + "/simple"}, says: []string{"downloaded"}, host: pypiHost, port: "443"},
	} {
		for _, family := range []string{"4", "6"} {
			t.Run(fmt.Sprintf("%s %s IPv%s", test.argv[0], test.port, family), func(t *testing.T) {
				argv := slices.Concat([]string{"bash", test.argv[0], family}, test.argv[1:])
				said, recorded, report := g.run(t, g.spec(t, allowed(), argv...))
				expect(t, "it says", said, test.says, report.Stderr)
				expect(t, "the record", distinct(recorded), []string{"name " + test.host + " allowed", "transparent " + test.host + ":" + test.port + " allowed"}, report.Stderr)
			})
		}
	}
}

// TestToolsReachNothingElse: the same programs cannot reach a server that is not allowed.
func TestToolsReachNothingElse(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	for _, argv := range [][]string{
		{"git.sh", "4", "http://" + deniedHost + "/tiny.git"},
		{"git.sh", "6", "https://" + deniedHost + "/tiny.git"},
		{"npm.sh", "4", "https://" + deniedHost + "/"},
		{"npm.sh", "6", "https://" + deniedHost + "/"},
		{"pip.sh", "4", "https://" + deniedHost + "/simple"},
		{"pip.sh", "6", "https://" + deniedHost + "/simple"},
	} {
		t.Run(argv[0]+" IPv"+argv[1], func(t *testing.T) {
			report := jailtest.Run(t, g.runner, g.spec(t, allowed(), slices.Concat([]string{"bash"}, argv)...))
			if report.ExitCode == nil || *report.ExitCode == 0 {
				t.Errorf("ended with %v, stdout %s", report.ExitCode, report.Stdout.Head)
			}
			expect(t, "the record", record(t, report), []string{"name " + deniedHost + " denied unlisted"}, report.Stderr)
		})
	}
}
