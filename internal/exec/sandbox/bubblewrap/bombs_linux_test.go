package bubblewrap

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/internal/exec/sandbox/inside"
	"palyra/internal/exec/sandbox/jail"
	"palyra/internal/exec/sandbox/jail/jailtest"
)

// bombsOrder, in a variable, makes this binary a daemon in a service with few processes. The
// daemon starts the bombs, and Other for each line of its input.
type bombsOrder struct {
	Bombs   []sandbox.Spec
	Other   sandbox.Spec
	Without []string
	Dir     string
	// DiesAsWell makes the kernel treat the daemon's memory like a program's.
	DiesAsWell bool
}

const bombsMark = "TEST_PALYRA_BOMBS"

// ballastBytes is the memory of the daemon, which exceeds each process of hoard. A palyrad with
// a long journal has the same property.
const ballastBytes = 64 << 20

// bombsWord is the daemon's report about a run that has ended.
type bombsWord struct {
	// Bomb is true for one of the bombs. Up is true when a bomb has started all processes that it
	// can.
	Bomb, Up bool
	Quota    sandbox.Quota
	Exit     *int
	Error    string
}

func bombsMain() int {
	var o bombsOrder
	helper, err := jailtest.Helper()
	if err = errors.Join(err, json.Unmarshal([]byte(os.Getenv(bombsMark)), &o)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if o.DiesAsWell {
		if err := os.WriteFile("/proc/self/oom_score_adj", []byte(strconv.Itoa(inside.DieFirst)), 0); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	c := testConfig(o.Dir)
	c.Without = o.Without
	r, err := newRunner(c, helper)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(o.Bombs) == 0 {
		if err := errors.Join(r.Sweep(context.Background()), r.Close()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	ballast := bytes.Repeat([]byte{1}, ballastBytes)
	defer runtime.KeepAlive(ballast)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	words := make(chan bombsWord)
	run := func(bomb bool, s sandbox.Spec) {
		s.Output = func(string, []byte) { words <- bombsWord{Bomb: bomb, Up: true} }
		report, err := r.Run(ctx, s)
		w := bombsWord{Bomb: bomb, Quota: report.Quota, Exit: report.ExitCode}
		if err != nil {
			w.Error = err.Error()
		}
		words <- w
	}
	for _, s := range o.Bombs {
		go run(true, s)
	}
	going := len(o.Bombs)
	asked := make(chan bool)
	go func() {
		defer close(asked)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			asked <- true
		}
	}()
	for open := true; open || going > 0; {
		select {
		case _, open = <-asked:
			if open {
				going++
				go run(false, o.Other)
			} else {
				cancel()
				asked = nil
			}
		case w := <-words:
			if !w.Up {
				going--
			}
			_ = json.NewEncoder(os.Stdout).Encode(w)
		}
	}
	if err := r.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// bomb starts up to 990 processes, and then waits.
const bomb = `import os, time
for i in range(990):
    try:
        pid = os.fork()
    except OSError:
        break
    if pid == 0:
        time.sleep(3600)
        os._exit(0)
print("up", flush=True)
time.sleep(3600)
`

// Two programs, each within its own limits, together need more processes than the daemon's
// service has. One of them is ended, the daemon lives, and another program runs concurrently
// with the other. Control: without the group around all runs, the daemon reaches the limit and
// dies, or can start no programs.
func TestBombsTogether(t *testing.T) {
	t.Parallel()
	tree := cgroup.Find()
	t.Cleanup(func() { must.Check(t, tree.Close()) })
	if tree.Level() == cgroup.Rlimit {
		t.Skip("this machine lets nobody make control groups with memory and pids; run as root, or in a systemd unit with Delegate=yes")
	}
	for name, without := range map[string][]string{"bounded": nil, "control": {jail.AllRuns}} {
		t.Run(name, func(t *testing.T) {
			d := startBombs(t, tree, sandbox.Limits{Processes: 1500, Memory: 4 << 30}, func(root string) bombsOrder {
				one := jailtest.Spec(t, root, "python3", "-S", "-c", bomb)
				return bombsOrder{Bombs: []sandbox.Spec{one, one}, Without: without}
			})
			ended, up, other := 0, 0, bombsWord{}
			for w := range d.words {
				switch {
				case w.Up:
					up++
				case w.Bomb:
					ended++
					if w.Quota != sandbox.QuotaProcesses && without == nil && other.Exit == nil {
						t.Errorf("the bomb ended with %+v", w)
					}
				default:
					other = w
					must.Do(t, d.say.Close())
				}
				if w.Bomb && (without == nil && ended == 1 && !w.Up || without != nil && up == 2 && w.Up) {
					_ = must.Get(io.WriteString(d.say, "another\n"))(t)
				}
				if without == nil && other.Exit == nil && ended > 1 {
					t.Error("both bombs are gone before another program has run")
				}
			}
			err := d.cmd.Wait()
			ran := other.Exit != nil && *other.Exit == 0
			if without == nil && (err != nil || !ran) {
				t.Errorf("the daemon ended with %v, the other program with %+v: %s", err, other, &d.log)
			}
			if without != nil && ran {
				t.Error("control: another program runs although nothing keeps the bombs from the daemon's own processes")
			}
			t.Logf("the daemon ended with %v, the other program with %+v", err, other)
		})
	}
}

// hoard starts up to 400 processes of at least 2 MiB, each smaller than the daemon, and then
// waits.
const hoard = `import os, time
for i in range(400):
    if os.fork() == 0:
        kept = b"x" * (2 << 20)
        time.sleep(3600)
        os._exit(0)
time.sleep(3600)
`

// A program within its own limits needs more memory than the daemon's service has. The program
// is ended, and the daemon lives and runs another one. Control: without the group around all
// runs and without the daemon's OOM protection, the kernel ends the daemon, which is the
// largest process. All processes are in groups of the test, so others on the machine are not
// affected.
func TestMemoryHogIsEnded(t *testing.T) {
	t.Parallel()
	tree := cgroup.Find()
	t.Cleanup(func() { must.Check(t, tree.Close()) })
	if tree.Level() == cgroup.Rlimit {
		t.Skip("this machine lets nobody make control groups with memory and pids; run as root, or in a systemd unit with Delegate=yes")
	}
	for name, control := range map[string]bool{"bounded": false, "control": true} {
		t.Run(name, func(t *testing.T) {
			d := startBombs(t, tree, sandbox.Limits{Processes: 1500, Memory: 512 << 20}, func(root string) bombsOrder {
				o := bombsOrder{Bombs: []sandbox.Spec{jailtest.Spec(t, root, "python3", "-S", "-c", hoard)}, DiesAsWell: control}
				o.Bombs[0].Limits.Memory = 4 << 30
				if control {
					o.Without = []string{jail.AllRuns}
				}
				return o
			})
			eater, other := bombsWord{}, bombsWord{}
			for w := range d.words {
				switch {
				case w.Up:
				case w.Bomb:
					eater = w
					if _, err := io.WriteString(d.say, "another\n"); err != nil && !control {
						t.Errorf("the daemon takes no other program: %v", err)
					}
				default:
					other = w
					must.Do(t, d.say.Close())
				}
			}
			err := d.cmd.Wait()
			ran := other.Exit != nil && *other.Exit == 0
			if !control && (err != nil || !ran || eater.Quota != sandbox.QuotaMemory) {
				t.Errorf("the eater ended with %+v, the daemon with %v, the other program with %+v: %s", eater, err, other, &d.log)
			}
			if control && ran {
				t.Errorf("control: another program runs although nothing keeps the eater (%+v) from the daemon's own memory", eater)
			}
			t.Logf("the eater ended with %+v, the daemon with %v, the other program with %+v", eater, err, other)
		})
	}
}

// bombs is a daemon in a service with few processes and little memory.
type bombs struct {
	cmd   *exec.Cmd
	say   io.WriteCloser
	words chan bombsWord
	log   bytes.Buffer
}

func startBombs(t *testing.T, tree *cgroup.Tree, limits sandbox.Limits, order func(workspace string) bombsOrder) *bombs {
	t.Helper()
	needs.Sandbox(t)
	service := must.Get(tree.Start(limits))(t)
	root := jailtest.Workspace(t)
	o := order(root)
	o.Other, o.Dir = jailtest.Spec(t, root, "true"), t.TempDir()
	d := &bombs{cmd: jailtest.Again(t, bombsMark, o), words: make(chan bombsWord)}
	d.cmd.Stderr = &d.log
	d.say = must.Get(d.cmd.StdinPipe())(t)
	hear := must.Get(d.cmd.StdoutPipe())(t)
	must.Do(t, startIn(service, d.cmd))
	guard := time.AfterFunc(3*time.Minute, service.Kill)
	t.Cleanup(func() {
		guard.Stop()
		must.Check(t, service.End())
		sweep := jailtest.Again(t, bombsMark, bombsOrder{Dir: o.Dir})
		must.Do(t, startIn(service, sweep))
		must.Check(t, sweep.Wait())
		must.Check(t, service.End())
		must.Check(t, service.Close())
	})
	go func() {
		defer close(d.words)
		for from := json.NewDecoder(hear); ; {
			var w bombsWord
			if from.Decode(&w) != nil {
				return
			}
			d.words <- w
		}
	}()
	return d
}

// startIn starts a process in the groups.
func startIn(g *cgroup.Group, cmd *exec.Cmd) error {
	if dir := g.Dir(); dir != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := g.Enter(); err != nil {
		return err
	}
	return errors.Join(cmd.Start(), g.Leave())
}

// Each concurrent run gets a share of the daemon's resources if control groups are missing.
// Control: without a reserve each run has its full limits.
func TestPartsWithoutGroups(t *testing.T) {
	t.Parallel()
	bounds := cgroup.Bounds()
	if bounds.Processes < 8192 {
		t.Skipf("this user may have no more than %d processes, of which four parts are less than the limits", bounds.Processes)
	}
	for name, c := range map[string]struct {
		reserve int
		want    uint64
	}{
		"divided": {bounds.Processes - 400, 100}, "control": {1, 1024},
	} {
		config := testConfig(t.TempDir())
		config.Without = []string{jail.LayerGroup}
		config.Room = sandbox.Room{Concurrent: 4, Reserve: sandbox.Reserve{Processes: c.reserve}}
		r := newConfiguredRunner(t, config)
		if status := r.Probe(t.Context()); status.Limits != cgroup.Rlimit || status.AtOnce != 4 {
			t.Errorf("%s: the status is %+v", name, status)
		}
		const count = "import os, time\nn = 0\nwhile n < 300:\n    try:\n        pid = os.fork()\n    except OSError:\n        break\n    if pid == 0:\n        time.sleep(3600)\n    n += 1\nprint(n, flush=True)\nos._exit(0)"
		report := jailtest.Run(t, r, jailtest.Spec(t, jailtest.Workspace(t), "python3", "-S", "-c", count))
		n, _ := strconv.Atoi(strings.TrimSpace(string(report.Stdout.Head)))
		if got := report.Isolation.Rlimits["nproc"]; got != c.want || report.Isolation.LimitsBy != cgroup.Rlimit {
			t.Errorf("%s: the limit is %d by %s, want %d", name, got, report.Isolation.LimitsBy, c.want)
		}
		if uint64(n) >= c.want || name == "control" && n != 300 || n < 50 {
			t.Errorf("%s: the program has %d children where the limit is %d", name, n, c.want)
		}
	}
}
