package bubblewrap

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"palyra/internal/must"
	"palyra/internal/needs"
	"palyra/internal/sandbox/jail"
)

// TestOrphans: what looks to the letter like a bubblewrap of a daemon that is
// gone is ended, and nothing else. It runs as the first process of a namespace,
// which gets the orphans: on a machine they may be somebody else's.
func TestOrphans(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	if os.Getpid() != 1 {
		asFirst(t)
		return
	}
	// The groups of other daemons look like those of dead ones from in here.
	r := newTestRunner(t, jail.LayerGroup)
	ours, other := r.argv(), append(r.argv(), "more")
	orphan, stranger := orphanOf(t, ours), orphanOf(t, other)
	if text, err := os.ReadFile("/proc/" + orphan + "/status"); err != nil || !strings.Contains(string(text), "\nPPid:\t1\n") {
		t.Fatalf("the orphan is not the first process's: %v\n%s", err, text)
	}
	must.Do(t, r.Sweep(t.Context()))
	must.Eventually(t, "the orphan has ended", func() (bool, string) {
		_, err := os.Readlink("/proc/" + orphan + "/exe") // fails for a zombie, too
		return err != nil, "it lives"
	})
	if _, err := os.Readlink("/proc/" + stranger + "/exe"); err != nil {
		t.Errorf("a process with another command line was ended: %v", err)
	}
}

// asFirst runs the test again as the first process.
func asFirst(t *testing.T) {
	t.Helper()
	program := must.Get(os.Executable())(t)
	argv := []string{"--pid", "--fork", "--kill-child", "--mount-proc", program, "-test.run=^" + t.Name() + "$", "-test.v"}
	if os.Geteuid() != 0 {
		argv = append([]string{"--user", "--map-current-user"}, argv...)
	}
	out, err := exec.CommandContext(t.Context(), "unshare", argv...).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("as the first process (unshare is in util-linux): %v\n%s", err, out)
	}
}

// orphanOf starts this test binary under a command line, without a parent. It
// ends with the test at the latest.
func orphanOf(t *testing.T, argv []string) string {
	t.Helper()
	program := must.Get(os.Executable())(t)
	in, hold, err := os.Pipe()
	must.Do(t, err)
	t.Cleanup(func() { hold.Close() })
	defer in.Close()
	said := filepath.Join(t.TempDir(), "pid")
	script := `exec 3<&0; (exec -a "$1" "$0" "${@:2}" <&3 3<&-) >/dev/null 2>&1 & echo $! > ` + said
	cmd := exec.Command("bash", append([]string{"-c", script, program}, argv...)...)
	cmd.Stdin = in
	cmd.Env = []string{waitForEnd + "=1"}
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	text := must.Get(os.ReadFile(said))(t)
	pid := strings.TrimSpace(string(text))
	must.Get(strconv.Atoi(pid))(t)
	want := strings.Join(argv, "\x00") + "\x00"
	must.Eventually(t, "the orphan has started", func() (bool, string) {
		line, err := os.ReadFile("/proc/" + pid + "/cmdline")
		return err == nil && string(line) == want, fmt.Sprintf("%q, %v", line, err)
	})
	return pid
}
