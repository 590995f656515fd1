//go:build palyrainit

package gateway

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/reason"
	"palyra/internal/exec/sandbox/exec"
)

// The tests of this file run programs in bubblewrap.

// Not parallel: it sets TMPDIR of the process.
func TestExecRunsInTheSandbox(t *testing.T) {
	needs.Sandbox(t)
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("TEST_PALYRA_CANARY", "secret")
	for _, row := range []struct {
		name  string
		stdin string
		args  []string
		code  int
		out   string
	}{
		{"standard input to output", "hello\n", []string{"--", "cat"}, 0, "hello\n"},
		{"its exit code", "", []string{"--", "sh", "-c", "exit 7"}, 7, ""},
		{"ended by a signal", "", []string{"--", "sh", "-c", "kill -TERM $$"}, 128 + 15, ""},
		{"an empty workspace of its own", "", []string{"--", "sh", "-c", "pwd; ls -A | wc -l; touch made && echo wrote"}, 0, "/workspace\n0\nwrote\n"},
		{"Tier B", "", []string{"--tier", "b", "--", "sh", "-c", "pwd | wc -l; id -u"}, 0, "1\n1000\n"},
		{"no environment of ours", "", []string{"--", "sh", "-c", "echo ${TEST_PALYRA_CANARY:-none}"}, 0, "none\n"},
		{"offline", "", []string{"--", "sh", "-c", "cat /proc/net/dev | tail -n +3 | cut -d: -f1 | tr -d ' '"}, 0, "lo\n"},
		{"its time was up", "", []string{"--timeout", "300ms", "--", "sleep", "30"}, exec.TimedOut, ""},
		{"its processor time was up", "", []string{"--limit", "cpu=1s", "--", "sh", "-c", "while :; do :; done"}, exec.Failed, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			e := sandboxExec(t, row.stdin, row.args...)
			if e.code != row.code || e.out != row.out {
				t.Errorf("code %d (%v), stdout %q, stderr %q", e.code, e.err, e.out, e.errOut)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
	// The program shares our network namespace exactly when the mode is not strict.
	ours := must.Get(os.Readlink("/proc/self/ns/net"))(t)
	for mode, same := range map[string]bool{"none": true, "preflight": true, "strict": false} {
		if e := sandboxExec(t, "", "--egress", mode, "--", "readlink", "/proc/self/ns/net"); e.code != 0 || (e.out == ours+"\n") != same {
			t.Errorf("egress %s: %+v, ours is %s", mode, e, ours)
		}
	}
}

func TestExecCopies(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	for _, row := range []struct {
		commit string
		source string
		hook   bool
	}{
		{"no", "old", false},
		{"yes", "new", false},
	} {
		t.Run(row.commit, func(t *testing.T) {
			dir := t.TempDir()
			must.Write(t, filepath.Join(dir, "source"), "old")
			e := sandboxExec(t, "", "--workspace", dir, "--cow", "--commit", row.commit, "--report", "json", "--",
				"sh", "-c", "printf new > source; mkdir -p .claude/hooks; echo x > .claude/hooks/y; exit 3")
			if e.code != 3 || e.err != nil {
				t.Fatalf("%+v", e)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "source")); err != nil || string(text) != row.source {
				t.Errorf("the file is %q, %v", text, err)
			}
			if _, err := os.Stat(filepath.Join(dir, ".claude")); err == nil {
				t.Error("a protected file was committed without anybody who looked at it")
			}
			if !strings.Contains(e.errOut, "# protected: .claude/hooks/y (agent)") || !strings.Contains(e.errOut, "+new") {
				t.Errorf("the diff is not shown: %s", e.errOut)
			}
			lines := strings.Split(strings.TrimSpace(e.errOut), "\n")
			var report exec.Report
			must.Do(t, json.Unmarshal([]byte(lines[len(lines)-1]), &report))
			want := map[string]string{"no": "discarded", "yes": "committed"}[row.commit]
			if report.Kind != "SandboxRun" || *report.ExitCode != 3 || string(report.Changes.State) != want || report.Level != "strict" || report.Rung != "full" {
				t.Errorf("report %+v, changes %+v", report, report.Changes)
			}
		})
	}
	// Without a copy the program writes to the directory itself, unless it is read-only.
	dir := t.TempDir()
	if e := sandboxExec(t, "", "--workspace", dir, "--", "touch", "made"); e.code != 0 {
		t.Errorf("%+v", e)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err != nil {
		t.Error(err)
	}
	if e := sandboxExec(t, "", "--workspace", dir, "--read-only", "--", "touch", "other"); e.code == 0 {
		t.Error("a read-only workspace was written to")
	}
	// The empty directory without --workspace is writable, unless it is read-only.
	for _, readOnly := range []bool{true, false} {
		args := []string{"--", "touch", "other"}
		if readOnly {
			args = slices.Insert(args, 0, "--read-only")
		}
		if e := sandboxExec(t, "", args...); (e.code != 0) != readOnly {
			t.Errorf("an empty workspace, read-only %t: exit code %d %s", readOnly, e.code, e.errOut)
		}
	}
	report := filepath.Join(t.TempDir(), "report.json")
	if e := sandboxExec(t, "", "--report", report, "--", "true"); e.code != 0 || e.errOut != "" {
		t.Errorf("%+v", e)
	}
	if text, err := os.ReadFile(report); err != nil || !json.Valid(text) {
		t.Errorf("the report is %s, %v", text, err)
	}
}

// TestExecAsksAtTheTerminal: without a terminal to ask at, no change is committed.
func TestExecAsksAtTheTerminal(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	if f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		f.Close()
		return // the test has a terminal, where a user could answer
	}
	dir := t.TempDir()
	e := sandboxExec(t, "", "--workspace", dir, "--cow", "--commit", "ask", "--", "touch", "made")
	if e.code != exec.Failed || reason.Of(e.err) != reason.CommitRefused {
		t.Errorf("%+v", e)
	}
	if _, err := os.Stat(filepath.Join(dir, "made")); err == nil {
		t.Error("it was committed")
	}
}

// TestExecShowsNoControls: control characters in names and contents, which a program chooses,
// are not printed on the approver's terminal.
func TestExecShowsNoControls(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	e := sandboxExec(t, "", "--workspace", t.TempDir(), "--cow", "--", "sh", "-c", `printf 'all:\n\tevil\r\033[2K\tfine\n' >Makefile; printf x >"$(printf 'a\033[8m')"`)
	if e.code != 0 || strings.ContainsAny(e.errOut, "\x1b\r") || !strings.Contains(e.errOut, `evil\u{d}\u{1b}[2K`) {
		t.Errorf("%d, %q", e.code, e.errOut)
	}
}
