//go:build linux

package attack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
)

// soakRuns names the variable with the number of runs, half of which an ordinary user makes if
// these tests are root's.
const soakRuns = "TEST_PALYRA_ATTACK_RUNS"

// TestHonestRunsBesideHostileOnes runs many programs at once. Every tenth exhausts what it can;
// the others must end with their exact output, and nothing may be left.
//
// Not parallel: it compares the mounts and descriptors of the process.
func TestHonestRunsBesideHostileOnes(t *testing.T) {
	runs := 200
	if text := os.Getenv(soakRuns); text != "" {
		runs = must.Get(strconv.Atoi(text))(t) / 2
		if places.root {
			text, err := asOrdinaryUser(t, t.Name(), "")
			t.Logf("as an ordinary user: %v\n%s", err, text)
			if err != nil {
				t.Fail()
			}
		}
	}
	r := must.Get(bubblewrap.New(configOf(nil, "")))(t)
	m := mixture{runner: r}
	m.run(t, 40) // what the first runs create once, such as descriptors of the runtime, is not left over
	before := remaining(t)
	m.run(t, runs)
	must.Eventually(t, "nothing is left of the runs", func() (bool, string) {
		after := remaining(t)
		return after == before, fmt.Sprintf("%+v, and before %+v", after, before)
	})
	must.Do(t, r.Close())
	t.Logf("%d honest and %d hostile runs, %d honest ones failed", m.honest.Load(), m.hostile.Load(), m.failed.Load())
}

// TestRemainsAreFound is the control: while a program runs, remaining counts its layer, its
// descriptors, its control group and its processes.
//
// Not parallel: other tests have runs, too.
func TestRemainsAreFound(t *testing.T) {
	r := must.Get(bubblewrap.New(configOf(nil, "")))(t)
	c := newScene(t)
	before := remaining(t)
	c.program("sh", "-c", "echo up; exec sleep 3600")
	ctx, cancel := context.WithCancel(t.Context())
	var during remains
	var only sync.Once
	c.spec.Output = func(string, []byte) {
		only.Do(func() { during = remaining(t) })
		cancel()
	}
	report, err := r.Run(ctx, c.spec)
	if reason.Of(err) != reason.Cancelled {
		t.Errorf("the run ended with %v", err)
	}
	must.Do(t, errors.Join(report.Layer.Close(), r.Close()))
	if during.files <= before.files || during.descriptors <= before.descriptors || during.processes <= before.processes ||
		places.groups && during.groups <= before.groups {
		t.Errorf("found %+v, and before %+v", during, before)
	}
}

// remains counts what runs could leave behind.
type remains struct{ files, descriptors, mounts, groups, processes int }

// remaining counts what is there now of this process's runs.
func remaining(t *testing.T) (n remains) {
	t.Helper()
	for _, dir := range []string{"layers", "quarantine"} {
		must.Do(t, filepath.WalkDir(filepath.Join(places.scenes, dir), func(string, fs.DirEntry, error) error {
			n.files++
			return nil
		}))
	}
	n.descriptors = len(must.Get(os.ReadDir("/proc/self/fd"))(t))
	n.mounts = bytes.Count(must.Get(os.ReadFile("/proc/self/mountinfo"))(t), []byte("\n"))
	group := "palyra-" + strconv.Itoa(os.Getpid()) + "-"
	// Groups of other processes come and go during the walk.
	_ = filepath.WalkDir("/sys/fs/cgroup", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(filepath.Base(filepath.Dir(name)), group) {
			n.groups++ // the group of a run is in the group of this process
		}
		return nil
	})
	n.processes = descendants(t)
	return n
}

// descendants counts the processes that this process started and their descendants. A sandbox
// dies with its parent, so no process of a run has another ancestor.
func descendants(t *testing.T) (n int) {
	t.Helper()
	parents := map[string]string{}
	for _, name := range must.Get(filepath.Glob("/proc/[0-9]*/stat"))(t) {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')'):], []byte(" "))
		if fields := strings.Fields(string(rest)); len(fields) > 1 {
			parents[filepath.Base(filepath.Dir(name))] = fields[1]
		}
	}
	self := strconv.Itoa(os.Getpid())
	for pid := range parents {
		for parent := parents[pid]; parent != "" && parent != "0"; parent = parents[parent] {
			if parent == self {
				n++
				break
			}
		}
	}
	return n
}

// mixture runs honest and hostile programs.
type mixture struct {
	runner                  sandbox.Runner
	left                    atomic.Int64
	honest, hostile, failed atomic.Int64
}

// run runs a number of programs, four at a time.
func (m *mixture) run(t *testing.T, runs int) {
	m.left.Store(int64(runs))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { m.work(t) })
	}
	all.Wait()
}

// work runs programs in a workspace of its own until none is left.
func (m *mixture) work(t *testing.T) {
	c := newScene(t)
	c.repository()
	c.must(os.WriteFile(filepath.Join(c.workspace, "words"), []byte("pear\napple\nfig\n"), 0o644))
	before := must.Get(snapshot(c.workspace))(t)
	for n := m.left.Add(-1); n >= 0; n = m.left.Add(-1) {
		if n%10 == 0 {
			m.hostile.Add(1)
			m.attack(t, c, hostile[int(n/10)%len(hostile)])
			continue
		}
		m.honest.Add(1)
		h := honest[int(n)%len(honest)]
		if problem := m.serve(t, c, h); problem != "" {
			m.failed.Add(1)
			t.Errorf("%v: %s", h.argv, problem)
		}
	}
	if diff := differences(before, must.Get(snapshot(c.workspace))(t)); diff != "" {
		t.Errorf("the workspace has changed: %s", diff)
	}
}

// honest are programs with their exact output.
var honest = []struct {
	argv []string
	out  string
}{
	{[]string{"sort", "words"}, "apple\nfig\npear\n"},
	{[]string{"sh", "-c", "echo $((6 * 7))"}, "42\n"},
	{[]string{"git", "log", "--format=%s"}, "first\n"},
	{[]string{"sh", "-c", "for i in 1 2 3 4 5 6 7 8; do echo $i > f$i; done; mkdir -p a/b; mv f? a/b; cat a/b/* | wc -l"}, "8\n"},
	{[]string{"sh", "-c", "(sleep 0.05; echo late) & echo early; wait"}, "early\nlate\n"},
	{[]string{"sh", "-c", "head -c 2M /dev/zero > zeros; rm words; ls; wc -c < zeros"}, "probe\nzeros\n2097152\n"},
	{[]string{"python3", "-c", "import socket\na, b = socket.socketpair()\na.send(b'x')\nprint(sum(range(1000)), b.recv(1))"}, "499500 b'x'\n"},
}

func (m *mixture) serve(t *testing.T, c *scene, h struct {
	argv []string
	out  string
}) string {
	s := c.spec
	p, err := command.ResolveExecutable(h.argv[0], command.SearchPath())
	if err != nil {
		return err.Error()
	}
	s.Executable, s.Argv = p.Executable, h.argv
	report, err := m.runner.Run(t.Context(), s)
	if report.Layer != nil {
		err = errors.Join(err, report.Layer.Close())
	}
	if out := string(report.Stdout.Head) + string(report.Stdout.Tail); err != nil || report.ExitCode == nil || *report.ExitCode != 0 || out != h.out {
		return fmt.Sprintf("%s, want %q: %v", attempt{err: err, report: report, said: out}, h.out, err)
	}
	return ""
}

// hostile are programs that exhaust something, with limits that end them quickly.
var hostile = []struct {
	probe  []string
	limits sandbox.Limits
}{
	{probe("fork", "200"), sandbox.Limits{Processes: 64}},
	{probe("thread", "200"), sandbox.Limits{Processes: 64}},
	{probe("anonymous", "96"), sandbox.Limits{Memory: 48 << 20}},
	{probe("pipes", "56"), sandbox.Limits{Memory: 48 << 20}},
	{probe("in-flight"), sandbox.Limits{Wall: 500 * time.Millisecond}},
	{probe("fill", "64"), sandbox.Limits{Disk: 8 << 20}},
	{probe("many-files", "20000"), sandbox.Limits{Files: 1000}},
	{probe("allocate", "plain"), sandbox.Limits{}},
	{probe("descriptors", "900"), sandbox.Limits{OpenFiles: 64}},
	{probe("output", "16", "lines"), sandbox.Limits{Output: 4096}},
	{probe("timers", "2000"), sandbox.Limits{}},
	{probe("survive", "forked", "token", "end"), sandbox.Limits{}},
	{probe("outlast", "2s", "quiet"), sandbox.Limits{Wall: 300 * time.Millisecond}},
}

// attack runs a hostile program. How it ends is the subject of the catalogue; here it must only
// end.
func (m *mixture) attack(t *testing.T, c *scene, h struct {
	probe  []string
	limits sandbox.Limits
}) {
	s := c.spec
	s.Executable = tool.Executable{Path: filepath.Join(c.workspace, places.probe.name), SHA256: places.probe.sha256}
	s.Argv = append([]string{"./" + places.probe.name}, h.probe...)
	s.Limits = h.limits
	if s.Limits.Wall == 0 {
		s.Limits.Wall = patience
	}
	report, err := m.runner.Run(t.Context(), s)
	if report.Layer != nil {
		err = errors.Join(err, report.Layer.Close())
	}
	if err != nil {
		t.Errorf("%v: %v", h.probe, err)
	}
}
