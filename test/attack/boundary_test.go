//go:build linux

package attack

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/sandbox/bubblewrap"
)

// patience limits the runs that have no time limit. No run comes near it.
const patience = 3 * must.Patience

// TestBoundary tries every row of the sandbox's catalogue.
func TestBoundary(t *testing.T) {
	t.Parallel()
	b := newBoundary(t)
	t.Run("rows", func(t *testing.T) {
		for _, r := range catalogue() {
			if !r.ofSandbox() || !places.applies(r) {
				continue
			}
			t.Run(strings.ReplaceAll(r.name(), " ", "_"), func(t *testing.T) {
				t.Parallel()
				b.try(t, r)
			})
		}
	})
}

// boundary is the sandbox with and without its layers.
type boundary struct {
	world   *world
	mu      sync.Mutex
	runners map[string]*bubblewrap.Runner
}

func newBoundary(t *testing.T) *boundary {
	b := &boundary{world: newWorld(t), runners: map[string]*bubblewrap.Runner{}}
	t.Cleanup(func() {
		for _, r := range b.runners {
			must.Check(t, r.Close())
		}
	})
	return b
}

// runner returns the runner that omits these layers.
func (b *boundary) runner(t *testing.T, without []string) *bubblewrap.Runner {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	key := strings.Join(without, ",")
	if b.runners[key] == nil {
		cfg := configOf(without, "")
		cfg.Outward = b.world.outward()
		r := must.Get(bubblewrap.New(cfg))(t)
		b.runners[key] = r
	}
	return b.runners[key]
}

// configOf returns the daemon's configuration with layers left out, or with another bubblewrap.
func configOf(without []string, bwrap string) bubblewrap.Config {
	return bubblewrap.Config{
		Enabled: true, Bwrap: bwrap, Without: without,
		LayerDir: filepath.Join(places.scenes, "layers"), QuarantineDir: filepath.Join(places.scenes, "quarantine"),
	}
}

// try checks one row: the whole product must deny the attack, each wall alone must deny it (in
// the whole matrix), and without all walls the attack must succeed.
func (b *boundary) try(t *testing.T, r row) {
	o := outcome{Attack: denied, Control: failed}
	defer func() { results.record(r.name(), o) }()
	walls := r.layers(places.root)
	o.Attack = b.mustFail(t, r, nil)
	if r.bare {
		if out := b.bare(t, r); out.err == nil && out.done {
			o.Control = succeeded
		} else {
			t.Errorf("the control did not succeed outside: %s", out)
		}
		return
	}
	for _, wall := range walls {
		if !places.whole {
			break
		}
		others := slices.DeleteFunc(slices.Clone(walls), func(w string) bool { return w == wall })
		if others = append(others, r.aside...); len(others) > 0 && o.Attack == denied {
			o.Attack = b.mustFail(t, r, others)
		}
	}
	out := b.run(t, r, append(slices.Clone(walls), r.aside...), true)
	if out.err == nil && out.done {
		o.Control = succeeded
	} else {
		t.Errorf("the control did not succeed without %v: %s", walls, out)
	}
}

// bare runs the probe as this user, without a sandbox. The probe reaches every server directly
// or by a vulnerable proxy, and it has the secret itself.
func (b *boundary) bare(t *testing.T, r row) attempt {
	t.Helper()
	c := newScene(t)
	c.world, c.direct = b.world, true
	if r.prepare != nil {
		r.prepare(c)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(places.base, c.attacks), slices.Concat(c.fillAll(r.probe), c.args)...)
	cmd.Dir = c.workspace
	if c.site != nil {
		cmd.Env = append(os.Environ(), "TOKEN="+c.site.secret)
	}
	out, err := cmd.Output()
	a := attempt{err: err, said: lastLine(sandbox.Stream{Head: out})}
	before := c.look()
	a.judge(c, r, before, before)
	return a
}

// mustFail runs the attack against the product without some layers.
func (b *boundary) mustFail(t *testing.T, r row, without []string) string {
	t.Helper()
	out := b.run(t, r, without, false)
	switch {
	case out.err != nil:
		t.Errorf("the attack could not be tried without %v: %s", without, out)
		return failed
	case out.done || out.trace != "":
		t.Errorf("ESCAPE without %v: %s", without, out)
		return escaped
	case out.idle && !r.silent:
		t.Errorf("nobody denied the attack without %v, it only ran out of time: %s", without, out)
		return failed
	}
	if r.uses && !out.used {
		t.Errorf("denied, and the secret did not arrive where it belongs: %+v; %s", out.report.Connections, out)
	}
	if r.told != "" && !out.tells(strings.Fields(r.told)) {
		t.Errorf("denied, and the record does not say %s: %+v; %s", r.told, out.report.Connections, out)
	}
	return denied
}

// attempt is the outcome of one run.
type attempt struct {
	done  bool
	trace string
	err   error
	used  bool
	// idle is set if the probe or the whole run timed out.
	idle bool
	// said is the probe's output; report is the sandbox's report of the run.
	said   string
	report sandbox.Report
}

func (a attempt) String() string {
	exit := "stopped"
	if a.report.ExitCode != nil {
		exit = fmt.Sprint("exit code ", *a.report.ExitCode)
	}
	return fmt.Sprintf("done %t, %s %s quota %q timed out %t, said %q, errors %.600q, left %q: %v",
		a.done, exit, a.report.Signal, a.report.Quota, a.report.TimedOut, a.said, a.report.Stderr.Head, a.trace, a.err)
}

// run tries a row once in its own scene.
func (b *boundary) run(t *testing.T, r row, without []string, lifted bool) attempt {
	t.Helper()
	c := newScene(t)
	c.world, c.direct = b.world, lifted && slices.Contains(without, netNS)
	if r.prepare != nil {
		r.prepare(c)
	}
	if r.lift != nil && lifted {
		r.lift(c)
	}
	end := func() {}
	if r.beside != nil {
		end = b.neighbour(c, r, without)
	}
	if r.visit != nil {
		c.spec.Output = once(func(port string) { r.visit(c, port) })
	}
	if c.spec.Argv == nil {
		c.spec.Argv = slices.Concat([]string{c.attacks}, c.fillAll(r.probe), c.args)
	}
	before := c.look()
	if r.first != nil {
		first := c.spec
		first.Argv = slices.Concat([]string{"./probe"}, r.first, c.args)
		if a := b.start(t, r, without, first); a.err != nil {
			return a
		}
	}
	a := b.start(t, r, without, c.spec)
	end()
	a.judge(c, r, before, c.look())
	a.idle = strings.Contains(a.said, "i/o timeout") || a.report.TimedOut && c.spec.Limits.Wall == patience
	return a
}

// start runs one program, in this process or in a child that has a terminal.
func (b *boundary) start(t *testing.T, r row, without []string, s sandbox.Spec) attempt {
	t.Helper()
	if r.terminal {
		return atTerminal(t, without, s)
	}
	report, err := b.runner(t, without).Run(t.Context(), s)
	if report.Layer != nil {
		err = errors.Join(err, report.Layer.Close())
		report.Layer = nil
	}
	return attempt{report: report, err: err, said: lastLine(report.Stdout)}
}

// lastLine returns the last line of the output, where the probe prints its result.
func lastLine(s sandbox.Stream) string {
	text := bytes.TrimSpace(append(slices.Clone(s.Head), s.Tail...))
	return string(text[bytes.LastIndexByte(text, '\n')+1:])
}

// look returns the state of the files that an attack must not change.
func (c *scene) look() [2]map[string]string {
	c.t.Helper()
	in, err := snapshot(c.workspace)
	c.must(err)
	out, err := snapshot(c.outside)
	c.must(err)
	return [2]map[string]string{in, out}
}

// judge recognizes an attack's success by its effect, and finds traces of other attacks.
func (a *attempt) judge(c *scene, r row, before, after [2]map[string]string) {
	work, world := differences(before[0], after[0]), differences(before[1], after[1])
	if c.site != nil {
		c.site.settle()
	}
	var s struct {
		Done   bool   `json:"done"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal([]byte(a.said), &s) == nil {
		a.said = s.Detail
	}
	switch r.effect {
	case word:
		// A program that is being stopped may still print its result.
		a.done = s.Done && a.report.Quota == "" && !a.report.TimedOut
	case outside:
		a.done = world != ""
	case inside:
		a.done = work != ""
	case alive:
		a.done = len(processesWith(c.token)) > 0
		endAll(c.token)
	case reached:
		a.done = c.site.reached() != ""
	case leaked:
		a.done = c.leaks(a.report)
	}
	a.trace = strings.TrimSpace(work + " " + world)
	if c.site != nil {
		a.used = c.site.given.Load()
		a.trace = strings.TrimSpace(a.trace + " " + c.site.reached())
		if c.leaks(a.report) {
			a.trace += " the report holds the secret"
		}
	}
}

// tells reports whether the run's connection log contains one of the reasons.
func (a attempt) tells(reasons []string) bool {
	return slices.ContainsFunc(a.report.Connections, func(c tool.Connection) bool { return slices.Contains(reasons, c.Reason) })
}

// processesWith lists the processes of the machine that have a word in their arguments.
func processesWith(word string) []int {
	names, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	var list []int
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(word)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			list = append(list, pid)
		}
	}
	return list
}

// endAll kills the processes that a control left running.
func endAll(word string) {
	for list := processesWith(word); len(list) > 0; list = processesWith(word) {
		for _, pid := range list {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
}
