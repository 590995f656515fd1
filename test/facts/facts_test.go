//go:build linux

package facts

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	toolcall "palyra/internal/call"
	"palyra/internal/core/canonical"
	"palyra/internal/evidence/attest"
	"palyra/internal/exec/workspace"
	"palyra/internal/gateway/gatewaytest"
)

// These variables set the length and the seed of a run, as in `make fuzz-facts TIME=1h SEED=7`.
const (
	timeVariable = "TEST_PALYRA_FACTS_TIME"
	seedVariable = "TEST_PALYRA_FACTS_SEED"
)

const (
	// workers is the number of workers that call the cheap tools, programWorkers the number for
	// the tools that start programs, which take a thousand times as long.
	workers, programWorkers = 48, 8
	// round is the lifetime of one store and one set of workspaces. The journal of an hour would
	// fill the disk.
	round = time.Minute
	// judgedFrom is the minimum length of a run for which the number of changes per stage and tool
	// is checked.
	judgedFrom = 30 * time.Minute
	// searchLimit limits a run that ends once it has found the violations it searches for.
	searchLimit = 10 * time.Minute
)

// fuzz is a run.
type fuzz struct {
	seed        uint64
	time        time.Duration
	ignoreFacts bool
	// untilFirst ends the run at the first violation.
	untilFirst bool
	// stop ends the run; it is set while the run lasts.
	stop func()
	// spoil is the session's spoil.
	spoil func(*worker, *call, *toolcall.Outcome)

	tally  *tally
	notary *attest.Notary
	tools  []string
	took   time.Duration
	// left names the omitted tools and the reason.
	left string
}

// run runs rounds until the time is over.
func (f *fuzz) run(t *testing.T) {
	t.Helper()
	began := time.Now()
	f.tally, f.notary = newTally(), gatewaytest.Notary(t)
	programs := programCopies(t)
	ctx, stop := context.WithTimeout(t.Context(), f.time)
	defer stop()
	f.stop = stop
	for n := 0; ctx.Err() == nil; n++ {
		if err := f.round(ctx, stop, n, programs); err != nil {
			t.Fatal(err)
		}
	}
	f.took = time.Since(began)
}

// round starts a gateway with workspaces, lets the workers work, and removes
// everything.
func (f *fuzz) round(ctx context.Context, stop func(), n int, programs []*body) (err error) {
	dir, err := os.MkdirTemp("", "palyra-facts-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &session{tally: f.tally, hooks: &hooks{tally: f.tally, ignoreFacts: f.ignoreFacts}, spoil: f.spoil, programs: map[string]string{}, violated: func() {}}
	if f.untilFirst {
		s.violated = stop
	}
	for _, p := range programs {
		s.programs[plain(canonical.Digest(p.content))] = p.label
	}
	list, declared, err := f.workspaces(s, dir, n, programs)
	if err != nil {
		return err
	}
	defer func() {
		for _, w := range list {
			w.tree.close()
		}
	}()
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		return err
	}
	if s.gateway, err = newGateway(settings{dir: state, workspaces: declared, hooks: s.hooks, notary: f.notary}); err != nil {
		return err
	}
	f.share(s.gateway, list)
	ctx, cancel := context.WithTimeout(ctx, round)
	defer cancel()
	var running sync.WaitGroup
	for _, w := range list {
		if len(w.tools) > 0 {
			running.Go(func() { w.work(ctx) })
		}
	}
	running.Wait()
	return s.gateway.close()
}

// workspaces creates one workspace for each worker, and one that policy forbids to all.
func (f *fuzz) workspaces(s *session, dir string, n int, programs []*body) ([]*worker, []workspace.Declaration, error) {
	var list []*worker
	var declared []workspace.Declaration
	for i := range workers + programWorkers {
		name := fmt.Sprintf("w%d", i)
		at := filepath.Join(dir, name)
		own := programs
		if i < workers {
			own = nil
		}
		tree, err := newTree(at, i, generator(f.seed, n, i), own)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, &worker{session: s, name: name, tree: tree, calls: i})
		declared = append(declared, workspace.Declaration{Name: name, Path: at})
	}
	vault := filepath.Join(dir, "vault")
	if err := os.Mkdir(vault, 0o700); err != nil {
		return nil, nil, err
	}
	return list, append(declared, workspace.Declaration{Name: "vault", Path: vault}), nil
}

// share assigns tools to the workers.
func (f *fuzz) share(g *gateway, list []*worker) {
	f.tools, f.left = g.tools, ""
	if !g.box.Available {
		f.left = ", programs left out: " + g.box.Problem
	}
	var cheap, programs []string
	for _, name := range g.tools {
		switch {
		case runsPrograms(name):
			programs = append(programs, name)
		case strings.HasPrefix(name, "fs."): // fewer of these calls reach their end
			cheap = append(cheap, name, name)
		default:
			cheap = append(cheap, name)
		}
	}
	for i, w := range list {
		w.tools = cheap
		if i >= workers {
			w.tools = programs
		}
	}
}

// programCopies returns three copies of teller, each with its own label.
func programCopies(t *testing.T) []*body {
	t.Helper()
	out := filepath.Join(t.TempDir(), "teller")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, "palyra/test/facts/teller")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the teller: %v\n%s", err, text)
	}
	content, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	const label = "teller-000000000000"
	if !bytes.Contains(content, []byte(label)) {
		t.Fatal("the teller has no label")
	}
	var list []*body
	for _, l := range programLabels {
		list = append(list, &body{label: l, content: bytes.ReplaceAll(content, []byte(label), []byte(l)), mode: 0o755})
	}
	return list
}

// length returns the duration of the run, and seed the seed of its random choices.
func length(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(timeVariable)
	switch {
	case text == "" && testing.Short():
		return 2 * time.Second
	case text == "":
		return 30 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func seed(t *testing.T) uint64 {
	t.Helper()
	text := os.Getenv(seedVariable)
	if text == "" {
		return rand.Uint64()
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestFacts: whatever changes, and at whatever time, a call reads, writes and runs only what
// policy judged, or nothing.
func TestFacts(t *testing.T) {
	t.Parallel()
	f := &fuzz{seed: seed(t), time: length(t)}
	f.run(t)
	fmt.Printf("facts: seed %d%s\n", f.seed, f.left)
	f.tally.print(os.Stdout, f.tools, f.took)
	if _, violations := f.tally.count(); violations > 0 {
		t.Errorf("%d violations; "+seedVariable+"=%d repeats the run", violations, f.seed)
	}
	if few := f.tally.few(f.tools); f.time >= judgedFrom && len(few) > 0 {
		t.Errorf("fewer than %d changes: %s", enough, strings.Join(few, ", "))
	}
}

// TestControl: if dispatch receives the judged facts instead of the current ones, a violation
// is found within a minute.
func TestControl(t *testing.T) {
	t.Parallel()
	f := &fuzz{seed: seed(t), time: searchLimit, ignoreFacts: true, untilFirst: true}
	f.run(t)
	calls, violations := f.tally.count()
	fmt.Printf("facts: control with seed %d: %d violations in %d calls, the first within %s\n", f.seed, violations, calls, f.took.Round(time.Second/10))
	if violations == 0 {
		t.Error("no violation was found: the run proves nothing")
	}
}
