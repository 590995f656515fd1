package bubblewrap

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox/jail"
)

// TestOrphans: Sweep ends the second half of a bubblewrap whose first half has exited, whatever
// its new parent is, and no other process. The test runs in a separate PID namespace, so that
// it cannot end processes of the machine.
func TestOrphans(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	if os.Getpid() != 1 {
		asFirst(t)
		return
	}
	// The groups of other daemons look like groups of dead daemons from inside.
	r := newTestRunner(t, jail.LayerGroup)
	ours, other := r.argv(), append(r.argv(), "more")
	halved := startHalves(t, ours, ours)
	halved.end(t)
	if got := must.Get(os.ReadFile("/proc/" + halved.second + "/status"))(t); statusField(got, "PPid") != "1" {
		t.Fatalf("the orphan is not the first process's:\n%s", got)
	}
	// A parent other than process 1, such as the user's systemd.
	adopter := startHalves(t, other, ours)
	whole, stranger := startHalves(t, ours, ours), startHalves(t, other, other)
	must.Do(t, r.Sweep(t.Context()))
	for parent, pid := range map[string]string{"process 1": halved.second, "another process": adopter.second} {
		must.Eventually(t, "the orphan of "+parent+" has ended", func() (bool, string) {
			return !lives(pid), "it lives"
		})
	}
	for what, pid := range map[string]string{
		"a process with another command line": stranger.second, "the parent of it": stranger.first, "the parent of an orphan": adopter.first,
		"the first half of a sandbox": whole.first, "its second half": whole.second,
	} {
		if !lives(pid) {
			t.Errorf("%s was ended", what)
		}
	}
}

// lives reports whether a process runs; a zombie does not.
func lives(pid string) bool {
	_, err := os.Readlink("/proc/" + pid + "/exe")
	return err == nil
}

// asFirst runs the test again as the first process of a PID namespace.
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

// halves are two waiting copies of this test binary: the second is the first process of a
// namespace that the first created.
type halves struct {
	cmd           *exec.Cmd
	first, second string // process IDs
}

// startHalves starts both halves with a command line each. They end with the test at the
// latest.
func startHalves(t *testing.T, first, second []string) halves {
	t.Helper()
	cmd := exec.Command(must.Get(os.Executable())(t))
	cmd.Args = first
	cmd.Env = []string{secondHalf + "=" + strings.Join(second, "\n")}
	in := must.Get(cmd.StdinPipe())(t)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	said := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	number := must.Get(strconv.Atoi(strings.TrimSpace(said)))(t)
	return halves{cmd: cmd, first: strconv.Itoa(cmd.Process.Pid), second: strconv.Itoa(number)}
}

// end kills the first half.
func (h halves) end(t *testing.T) {
	t.Helper()
	must.Do(t, h.cmd.Process.Kill())
	must.Get(h.cmd.Process.Wait())(t)
}

// firstHalfMain starts the second half, prints its process ID, and waits for the end of its
// input.
func firstHalfMain() int {
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = strings.Split(os.Getenv(secondHalf), "\n")
	cmd.Env, cmd.Stdin = []string{waitForEnd + "=1"}, os.Stdin
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(cmd.Process.Pid)
	_ = cmd.Wait()
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
