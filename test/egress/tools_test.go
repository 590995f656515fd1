//go:build linux

package egress

import (
	"slices"
	"testing"

	"palyra/internal/sandbox/jail/jailtest"
)

// TestToolsReachTheirServers: git, npm and pip do their work, and the hosts
// that they ask for are recorded. How many connections they make is their own
// business.
func TestToolsReachTheirServers(t *testing.T) {
	g := newGround(t)
	for _, test := range []struct {
		name       string
		argv       []string
		says       []string
		host, port string
	}{
		{name: "git http IPv4", argv: []string{"git.sh", "4", "http://" + gitHost + "/tiny.git"}, says: []string{"cloned"}, host: gitHost, port: "80"},
		{name: "git https IPv4", argv: []string{"git.sh", "4", "https://" + gitHost + "/tiny.git"}, says: []string{"cloned"}, host: gitHost, port: "443"},
		{name: "git http IPv6", argv: []string{"git.sh", "6", "http://" + gitHost + "/tiny.git"}, says: []string{"cloned"}, host: gitHost, port: "80"},
		{name: "git https IPv6", argv: []string{"git.sh", "6", "https://" + gitHost + "/tiny.git"}, says: []string{"cloned"}, host: gitHost, port: "443"},
		{name: "npm http", argv: []string{"npm.sh", "http://" + npmHost + "/"}, says: []string{"1.0.0", "installed"}, host: npmHost, port: "80"},
		{name: "npm https", argv: []string{"npm.sh", "https://" + npmHost + "/"}, says: []string{"1.0.0", "installed"}, host: npmHost, port: "443"},
		{name: "pip https", argv: []string{"pip.sh", "https://" + pypiHost + "/simple"}, says: []string{"downloaded"}, host: pypiHost, port: "443"},
		{name: "pip http", argv: []string{"pip.sh", "http://" + pypiHost + "/simple", "--trusted-host", pypiHost}, says: []string{"downloaded"}, host: pypiHost, port: "80"},
	} {
		t.Run(test.name, func(t *testing.T) {
			said, recorded, report := g.run(t, g.spec(t, allowed(), append([]string{"bash"}, test.argv...)...))
			expect(t, "it says", said, test.says, report.Stderr)
			expect(t, "the record", distinct(recorded), []string{"name " + test.host + " allowed", "transparent " + test.host + ":" + test.port + " allowed"}, report.Stderr)
		})
	}
}

// TestToolsReachNothingElse: the same programs, pointed to a server that is not
// allowed.
func TestToolsReachNothingElse(t *testing.T) {
	g := newGround(t)
	for _, argv := range [][]string{
		{"git.sh", "4", "http://" + deniedHost + "/tiny.git"},
		{"git.sh", "6", "https://" + deniedHost + "/tiny.git"},
		{"npm.sh", "https://" + deniedHost + "/"},
		{"pip.sh", "https://" + deniedHost + "/simple"},
	} {
		t.Run(argv[0], func(t *testing.T) {
			report := jailtest.Run(t, g.runner, g.spec(t, allowed(), slices.Concat([]string{"bash"}, argv)...))
			if report.ExitCode == nil || *report.ExitCode == 0 {
				t.Errorf("ended with %v, stdout %s", report.ExitCode, report.Stdout.Head)
			}
			expect(t, "the record", record(t, report), []string{"name " + deniedHost + " denied unlisted"}, report.Stderr)
		})
	}
}
