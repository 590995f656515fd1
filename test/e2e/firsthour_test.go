//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
)

// stranger is a user id without an account. The test's processes use it when the tests run as
// root, because a newcomer is an ordinary user.
const stranger = "54321"

// firstUser is an ordinary user with a home, sources and a terminal of 80x24 that has two
// windows. Each command signals its end through a tmux channel, so that nothing depends on
// prompts or timing.
type firstUser struct {
	t        *testing.T
	dir      string
	one, two string
	ended    int
}

func newFirstUser(t *testing.T) *firstUser {
	t.Helper()
	n := &firstUser{t: t, dir: must.Get(os.MkdirTemp("", "palyra-hour-"))(t)}
	t.Cleanup(n.leave)
	must.Do(t, os.Chmod(n.dir, 0o755))
	for _, dir := range []string{"home", "codes", "src/bin", "src/node", "src/go", "src/py"} {
		must.Do(t, os.MkdirAll(filepath.Join(n.dir, dir), 0o755))
	}
	for _, name := range []string{"palyra", "palyrad"} {
		n.write("src/bin/"+name, string(must.Get(os.ReadFile(filepath.Join(programs, name)))(t)))
		must.Do(t, os.Chmod(filepath.Join(n.dir, "src/bin", name), 0o755))
	}
	n.write("src/README.md", string(must.Get(os.ReadFile(repository+"/README.md"))(t)))
	n.write("src/.gitignore", "/bin/\n/journal.ndjson\n")
	n.write("src/node/package.json", `{"name": "small", "version": "1.0.0", "scripts": {"test": "node --test"}}`)
	n.write("src/node/small.test.js", `require("node:test")("small", () => {});`)
	n.write("src/go/go.mod", "module small\n\ngo 1.21\n")
	n.write("src/go/small_test.go", "package small\n\nimport \"testing\"\n\nfunc TestSmall(t *testing.T) {}\n")
	n.write("src/py/test_small.py", "import unittest\n\n\nclass Small(unittest.TestCase):\n    def test_small(self):\n        pass\n")
	if os.Geteuid() == 0 {
		if out, err := exec.CommandContext(t.Context(), "chown", "-R", stranger+":"+stranger, n.dir).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	n.must("git", "init", "-q", ".")
	return n
}

func (n *firstUser) write(name, text string) {
	n.t.Helper()
	must.Do(n.t, os.WriteFile(filepath.Join(n.dir, name), []byte(text), 0o644))
}

// command returns a command that runs as the newcomer, without the test's own environment.
func (n *firstUser) command(ctx context.Context, argv ...string) *exec.Cmd {
	settings := []string{
		"HOME=" + n.dir + "/home", "PATH=" + n.dir + "/src/bin:/usr/bin:/bin", "LANG=C.UTF-8", "TERM=screen", "TMPDIR=/tmp",
		// Other gateways run on the same machine, which may be busy. Go recompiles its library below
		// the home of the sandbox.
		"PALYRA_LISTEN_API=127.0.0.1:0", "PALYRA_LISTEN_METRICS=127.0.0.1:0", "PALYRA_LISTEN_CONSOLE=127.0.0.1:0",
		"PALYRA_EXECUTION_TIMEOUT_MS=600000", "PALYRA_PROCESS_RUNNER_CPU_TIME_LIMIT_MS=600000", "PALYRA_PROCESS_RUNNER_TMP_LIMIT_BYTES=1073741824",
	}
	argv = append(append([]string{"env", "-i"}, settings...), argv...)
	if os.Geteuid() == 0 {
		argv = append([]string{"setpriv", "--reuid=" + stranger, "--regid=" + stranger, "--clear-groups"}, argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = filepath.Join(n.dir, "src")
	return cmd
}

func (n *firstUser) must(argv ...string) string {
	n.t.Helper()
	out, err := n.command(n.t.Context(), argv...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("%q: %v: %s", argv, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (n *firstUser) tmux(args ...string) string {
	n.t.Helper()
	return n.must(append([]string{"tmux", "-f", os.DevNull, "-S", filepath.Join(n.dir, "socket")}, args...)...)
}

const plainShell = "exec bash --norc --noprofile"

// openTerminal opens the terminal.
func (n *firstUser) openTerminal() {
	n.t.Helper()
	n.one = n.tmux("new-session", "-d", "-x", "80", "-y", "24", "-P", "-F", "#{pane_id}", plainShell)
	n.two = n.tmux("new-window", "-d", "-P", "-F", "#{pane_id}", plainShell)
	for _, pane := range []string{n.one, n.two} {
		if size := n.tmux("display-message", "-p", "-t", pane, "#{pane_width}x#{pane_height}"); size != "80x24" && size != "80x23" {
			n.t.Fatalf("the terminal is %s", size)
		}
	}
}

// begin types a line, and returns a function that waits until the command ends and returns its
// exit code.
func (n *firstUser) begin(pane, line string) func() int {
	n.t.Helper()
	n.ended++
	channel, code := "c"+strconv.Itoa(n.ended), filepath.Join(n.dir, "codes", strconv.Itoa(n.ended))
	if !strings.HasSuffix(line, "&") {
		line += ";"
	}
	n.tmux("send-keys", "-t", pane, "-l", "--", line+` echo "$?" > `+code+`; tmux wait-for -S `+channel)
	n.tmux("send-keys", "-t", pane, "Enter")
	return func() int {
		n.t.Helper()
		ctx, cancel := context.WithTimeout(n.t.Context(), 10*time.Minute) // it could hang
		defer cancel()
		if out, err := n.command(ctx, "tmux", "-S", filepath.Join(n.dir, "socket"), "wait-for", channel).CombinedOutput(); err != nil {
			n.t.Fatalf("%q does not end: %v: %s\n%s", line, err, out, n.screens())
		}
		return must.Get(strconv.Atoi(strings.TrimSpace(string(must.Get(os.ReadFile(code))(n.t)))))(n.t)
	}
}

// run types a line that must exit with code 0.
func (n *firstUser) run(pane, line string) {
	n.t.Helper()
	if code := n.begin(pane, line)(); code != 0 {
		n.t.Fatalf("%q exits %d\n%s", line, code, n.screens())
	}
}

// answered types a line that requests approval, and allows the call from the other window. It
// returns the terminal's content at the time of the request.
func (n *firstUser) answered(line string) (screen string) {
	n.t.Helper()
	n.run(n.one, "clear") // removes an earlier request
	end := n.begin(n.one, line)
	n.run(n.two, `until tmux capture-pane -p -t `+n.one+` | grep -q "^answer>"; do sleep 0.1; done`)
	screen = n.tmux("capture-pane", "-p", "-t", n.one)
	n.run(n.two, `id=$(palyra approvals list --state pending -o name)`)
	n.run(n.two, `digest=$(palyra approvals show $id -o json | sed -n 's/.*"call_digest": "\(.*\)".*/\1/p')`)
	n.run(n.two, `palyra approvals decide $id --allow once --digest $digest`)
	if code := end(); code != 0 {
		n.t.Fatalf("%q exits %d\n%s", line, code, n.screens())
	}
	return screen
}

// screens returns the content of both windows, and palyrad's log.
func (n *firstUser) screens() string {
	log, err := os.ReadFile(filepath.Join(n.dir, "home/.local/state/palyra-cli/run/palyrad.log"))
	if err != nil {
		log = []byte(err.Error())
	}
	return fmt.Sprintf("--- one\n%s\n--- two\n%s\n--- palyrad.log\n%s", n.tmux("capture-pane", "-p", "-t", n.one), n.tmux("capture-pane", "-p", "-t", n.two), log)
}

// leave ends the programs that the newcomer started. The gateway comes first, because closing
// the terminal does not end it.
func (n *firstUser) leave() {
	ctx := context.Background()
	_ = n.command(ctx, "bin/palyra", "down").Run()
	_ = n.command(ctx, "tmux", "-S", filepath.Join(n.dir, "socket"), "kill-server").Run()
	must.Check(n.t, os.RemoveAll(n.dir))
}

// quickStart returns the commands of the README's quick start.
func quickStart(t *testing.T) []string {
	t.Helper()
	_, below, _ := strings.Cut(string(must.Get(os.ReadFile(repository+"/README.md"))(t)), "\n## Quick start\n")
	_, below, _ = strings.Cut(below, "```sh\n")
	block, _, _ := strings.Cut(below, "```")
	var lines []string
	for line := range strings.Lines(block) {
		lines = append(lines, strings.TrimSpace(regexp.MustCompile(`\s+#.*`).ReplaceAllString(line, "")))
	}
	return lines
}

// TestFirstHour follows README to the letter, and meanwhile runs the tests of a small Node, Go
// and Python project through the gateway.
func TestFirstHour(t *testing.T) {
	t.Parallel()
	n := newFirstUser(t)
	if out, err := n.command(t.Context(), "bin/palyrad", "sandbox", "exec", "--", "true").CombinedOutput(); err != nil {
		t.Skipf("an ordinary user has no sandbox on this machine: %s", out)
	}
	n.openTerminal()
	asked, verified := false, false
	for _, line := range quickStart(t) {
		switch {
		case strings.HasPrefix(line, "palyra call process.run "):
			asked = true
			screen := n.answered(line)
			if !strings.Contains(screen, "\ngit status in src\nanswer>") {
				t.Errorf("in a terminal of 80x24 the question is\n%s", screen)
			}
			n.projects()
		default:
			n.run(n.one, line)
			verified = verified || strings.Contains(line, "journal verify")
		}
	}
	if !asked || !verified {
		t.Errorf("README has nobody answer a question (%v) or verify an export (%v)", asked, verified)
	}
	// Control: verification of the export detects a changed byte.
	if code := n.begin(n.one, `sed -i '0,/allow/s//allov/' journal.ndjson; palyra journal verify journal.ndjson`)(); code != 8 {
		t.Errorf("a changed export verifies with exit code %d\n%s", code, n.screens())
	}
}

// projects runs the tests of each project.
func (n *firstUser) projects() {
	n.t.Helper()
	n.answered("palyra call process.run workspace=src cwd=node argv=npm argv=test")
	n.answered("palyra call process.run workspace=src cwd=py argv=python3 argv=-m argv=unittest")
	n.answered("palyra call process.run workspace=src cwd=go argv=go argv=test argv=./...")
}
