//go:build linux

package main

import (
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/must"
)

// TestAffected: a change touches its package, the direct importers, and tests that name
// the file.
func TestAffected(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must.Do(t, os.MkdirAll(filepath.Join(root, "internal/doc"), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(root, "internal/doc/d_test.go"), []byte(`package doc; const page = "../../docs/page.md"`), 0o644))
	at := func(dir string, p pkg) pkg {
		p.ImportPath, p.Dir = module+"/"+dir, filepath.Join(root, dir)
		return p
	}
	all := []pkg{
		at("internal/a", pkg{}),
		at("internal/b", pkg{Imports: []string{"palyra/internal/a"}}),
		at("internal/c", pkg{XTestImports: []string{"palyra/internal/a"}}),
		at("internal/d", pkg{Imports: []string{"palyra/internal/b"}}),
		at("internal/doc", pkg{TestGoFiles: []string{"d_test.go"}}),
	}
	for file, want := range map[string][]string{
		"internal/a/a.go":                {"a", "b", "c"},
		"internal/a/testdata/x/golden":   {"a", "b", "c"},
		"internal/a/defaults/10-a.cedar": {"a", "b", "c"},
		"internal/d/d_test.go":           {"d"},
		"docs/page.md":                   {"doc"},
		"docs/other.md":                  nil,
		"go.mod":                         {"a", "b", "c", "d", "doc"},
	} {
		why := must.Get(affected(root, []string{file}, all))(t)
		var got []string
		for _, path := range slices.Sorted(maps.Keys(why)) {
			got = append(got, strings.TrimPrefix(path, "palyra/internal/"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s affects %v, want %v", file, got, want)
		}
	}
}

// TestChanged: committed, uncommitted and untracked files count, from the newest commit
// that the base and HEAD share.
func TestChanged(t *testing.T) {
	t.Parallel()
	r := newRepository(t, "good", "bad")
	r.git("init", "-q", "-b", "main")
	r.write("internal/importer/i.go", "// Package importer is one.\npackage importer\n\nimport _ \"palyra/internal/committed\"\n")
	r.write("internal/importer/i_test.go", "package importer\n\nimport \"testing\"\n\nfunc TestImporter(t *testing.T) {}\n")
	one := func(name string) {
		r.write("internal/"+name+"/x.go", "// Package "+name+" is one.\npackage "+name+"\n")
		r.write("internal/"+name+"/x_test.go", "package "+name+"\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {}\n")
	}
	one("edited")
	r.git("add", ".")
	r.git("commit", "-q", "-m", "one")
	r.git("branch", "base")
	one("committed")
	r.git("add", "internal/committed")
	r.git("commit", "-q", "-m", "two")
	r.write("internal/edited/y.go", "package edited\n")
	one("untracked")
	for _, args := range [][]string{{"changed"}, {"changed", "-base", "base"}} {
		code, out := r.run(args...)
		if code != 0 || strings.Contains(out, "internal/bad") || strings.Contains(out, "internal/good") {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
		wants(t, out, `^internal/committed: internal/committed/x\S*\.go differs$`, `^internal/importer: imports internal/committed$`, `^internal/edited: internal/edited/y.go differs$`, `^internal/untracked: `,
			`^== \d+ files differ from [0-9a-f]{40}, 4 packages are tested$`, `^4 passed, 0 failed`)
	}
	if code, out := r.run("changed", "-base", "nothing"); code == 0 || !strings.Contains(out, "BASE=nothing is not a commit of this repository") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func (r repository) git(args ...string) {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", append([]string{"-C", r.dir, "-c", "user.name=Test", "-c", "user.email=test@example.com"}, args...)...)
	if text, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("git %v: %v\n%s", args, err, text)
	}
}

// TestRotation: in each five successive commits every long tier is due at least once,
// however many there are.
func TestRotation(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 12; n++ {
		all := make([]tier, n)
		for i := range all {
			all[i].name = string(rune('a' + i))
		}
		for first := range 3 * n {
			seen := map[string]bool{}
			for commit := first; commit < first+everyCommits; commit++ {
				order, due := rotation(all, commit)
				if len(order) != n || due > n {
					t.Fatalf("%d tiers: %d in order, %d due", n, len(order), due)
				}
				for _, o := range order[:due] {
					seen[o.name] = true
				}
			}
			if len(seen) != n {
				t.Errorf("%d tiers, commits %d to %d: only %v are due", n, first, first+everyCommits-1, slices.Sorted(maps.Keys(seen)))
			}
		}
	}
}

// TestBudget: parallel tiers never hold more than the budget. A tier that requires more runs alone.
func TestBudget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(2, 8)
		b.most.processors = 2
		var mu sync.Mutex
		processors, memory, most := 0, 0, 0
		var all sync.WaitGroup
		for _, wants := range []tier{{processors: 2, memory: 6}, {processors: 1, memory: 1}, {processors: 1, memory: 3}, {processors: 9, memory: 99}, {processors: 1, memory: 8}} {
			c := b.take(wants)
			all.Go(func() {
				mu.Lock()
				processors, memory, most = processors+c.processors, memory+c.memory, max(most, memory+c.memory)
				if processors > 4 || memory > 8 {
					t.Errorf("%d processors and %d GiB are held", processors, memory)
				}
				mu.Unlock()
				time.Sleep(time.Second)
				mu.Lock()
				processors, memory = processors-c.processors, memory-c.memory
				mu.Unlock()
				b.give(c)
			})
		}
		all.Wait()
		if most < 7 {
			t.Errorf("no two tiers ran at once; at most %d GiB were held", most)
		}
	})
}

// TestCommandResults: failed tests of the console are named with the command that runs
// them again.
func TestCommandResults(t *testing.T) {
	t.Parallel()
	failure := errors.New("exit status 1")
	for _, c := range []struct {
		name, text string
		err        error
		pass       int
		failed     []string
	}{
		{"vitest", " FAIL  src/text/time.test.ts > time > is short\n FAIL  src/text/time.test.ts > time > is short\n\n      Tests  1 failed | 310 passed (311)\n", failure, 310, []string{"time > is short make test-web SPEC=src/text/time.test.ts"}},
		{"vitest passes", "      Tests  311 passed (311)\n", nil, 311, nil},
		{"playwright", "  ✓   1 e2e/first.spec.ts:9:1 › opens (2.1s)\n  ✘   2 [flows] › e2e/races.spec.ts:21:3 › two yes at once (10.2s)\n\n  1 failed\n  43 passed (3.1m)\n", failure, 43, []string{"two yes at once make test-browser SPEC=e2e/races.spec.ts:21"}},
		{"neither", "npm: not found\n", failure, 0, []string{" bin/tiers run x # exit status 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := commandResult(tier{name: "x", command: []string{"x"}}, c.text, c.err, time.Second)
			var bad []string
			pass := 0
			for _, result := range p.Tests {
				if result.bad() {
					bad = append(bad, result.Name+" "+result.Reproduce)
				} else {
					pass++
				}
			}
			if pass != c.pass || !slices.Equal(bad, c.failed) || (p.Outcome == failed) != (c.err != nil) {
				t.Errorf("%d passed, failed %q, outcome %s", pass, bad, p.Outcome)
			}
		})
	}
}

// TestQuote: a word is unchanged by the shell, except that $PWD is replaced.
func TestQuote(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"plain", "", "a b", "it's", `^TestA$/^a\(b\)$`, "*?[a]", `\`, "$HOME", "`x`", "a\nb"} {
		out := must.Get(exec.CommandContext(t.Context(), "sh", "-c", "printf %s "+shellQuote(word)).Output())(t)
		if string(out) != word {
			t.Errorf("%q becomes %q", word, out)
		}
	}
	if got := shellQuote("A=$PWD/bin"); got != "A=$PWD/bin" {
		t.Error(got)
	}
}

// TestTable: every tier has a unique name, needs and a time, and a long one takes at most five
// minutes.
func TestTable(t *testing.T) {
	t.Parallel()
	must.Check(t, checkTiers())
	for _, x := range tiers {
		if x.about == "" || len(x.needs) == 0 || x.budget == 0 || x.memory == 0 || (x.in == nil) == (len(x.command) == 0) {
			t.Errorf("the tier %s is incomplete: %+v", x.name, x.flags)
		}
		if x.suite == long && x.budget > 5*time.Minute {
			t.Errorf("the tier %s takes %v; a tier of make test-all takes at most 5 minutes", x.name, x.budget)
		}
	}
}

// TestRaceOfTheChange: the tier race has the packages that the change affects, the packages
// that are chosen by name, or all packages without a commit to compare with. The tier unit
// has the others.
//
// Not parallel: it changes the current directory.
func TestRaceOfTheChange(t *testing.T) {
	r := newRepository(t, "good")
	t.Chdir(r.dir)
	for _, name := range []string{"call", "run"} { // Both are in race.txt.
		r.write("internal/"+name+"/x.go", "// Package "+name+" is one.\npackage "+name+"\n")
		r.write("internal/"+name+"/x_test.go", "package "+name+"\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {}\n")
	}
	chosen := func(packages string) map[string][]string {
		s := &session{options: options{packages: packages, goTool: "go"}, out: io.Discard}
		got := map[string][]string{}
		for _, x := range must.Get(s.choose(t.Context(), must.Get(named([]string{"race", "unit"}))(t)))(t) {
			for _, p := range x.packages {
				got[x.name] = append(got[x.name], filepath.Base(p.Dir))
			}
			slices.Sort(got[x.name])
		}
		return got
	}
	is := func(when, packages string, race, unit []string) {
		t.Helper()
		if got := chosen(packages); !slices.Equal(got["race"], race) || !slices.Equal(got["unit"], unit) {
			t.Errorf("%s: %v, want %v with the race detector and %v without", when, got, race, unit)
		}
	}
	all := []string{"call", "run"}
	is("no repository", "./...", all, []string{"good"})
	r.git("init", "-q", "-b", "main")
	r.git("add", ".")
	r.git("commit", "-q", "-m", "one")
	is("one commit", "./...", all, []string{"good"})
	r.write("internal/run/y.go", "package run\n")
	r.git("add", ".")
	r.git("commit", "-q", "-m", "two")
	is("the last commit", "./...", []string{"run"}, []string{"call", "good"})
	r.git("branch", "origin/main")
	is("nothing differs", "./...", []string{"run"}, []string{"call", "good"})
	r.write("internal/call/y.go", "package call\n")
	is("an untracked file", "./...", []string{"call"}, []string{"good", "run"})
	r.write("internal/run/notes.md", "Notes.\n")
	is("a document", "./...", []string{"call"}, []string{"good", "run"})
	s := &session{options: options{packages: "./...", base: "nothing", goTool: "go"}, out: io.Discard}
	if _, err := s.choose(t.Context(), must.Get(named([]string{"race"}))(t)); err == nil || !strings.Contains(err.Error(), "BASE=nothing is not a commit") {
		t.Errorf("a base that does not exist: %v", err)
	}
	is("a chosen package", "./internal/run", []string{"run"}, nil)
	s = &session{options: options{packages: "./internal/good", goTool: "go"}, out: io.Discard}
	if _, err := s.choose(t.Context(), must.Get(named([]string{"faults"}))(t)); err == nil || !strings.Contains(err.Error(), "run it with bin/tiers run -pkg ./internal/good quick") {
		t.Errorf("a package that none of the tiers tests: %v", err)
	}
}

// TestStoppedPackages: if go test is stopped, the running tests are named, each with its command.
func TestStoppedPackages(t *testing.T) {
	t.Parallel()
	var got []packageResult
	c := newCollector("faults", goFlags{long: true, variables: []string{"TEST_PALYRA_FACTS_TIME=2m"}}, func(r packageResult) { got = append(got, r) })
	events := `{"Action":"start","Package":"palyra/test/fault"}
{"Action":"run","Package":"palyra/test/fault","Test":"TestEnds"}
{"Action":"pass","Package":"palyra/test/fault","Test":"TestEnds"}
{"Action":"run","Package":"palyra/test/fault","Test":"TestUnresponsiveTPM"}
{"Action":"output","Package":"palyra/test/fault","Test":"TestUnresponsiveTPM","Output":"waiting\n"}
`
	must.Do(t, c.read(strings.NewReader(events), io.Discard))
	if len(got) != 1 || got[0].Outcome != failed || len(got[0].Tests) != 2 {
		t.Fatalf("results %+v", got)
	}
	hangs := got[0].Tests[1]
	if hangs.Name != "TestUnresponsiveTPM" || hangs.Outcome != unfinished || !strings.Contains(hangs.Output, "waiting") || !strings.Contains(hangs.Reproduce, "TEST_PALYRA_FACTS_TIME=2m") {
		t.Errorf("the test that hung: %+v", hangs)
	}
}

// TestShards: each concurrent package is in one race tier, and their durations are similar.
func TestShards(t *testing.T) {
	t.Parallel()
	took := recordedDurations()
	var sums [raceShards + 1]time.Duration
	for _, folder := range concurrentFolders() {
		p := pkg{ImportPath: module + "/" + folder}
		sums[shardOf(p)] += took["race "+p.ImportPath]
	}
	longest := slices.Max(sums[:])
	for _, sum := range sums[1:] {
		if sums[0] > 0 || sum < longest/2 || sum == 0 {
			t.Errorf("the tiers take %v", sums)
		}
	}
	if shardOf(pkg{ImportPath: module + "/nowhere"}) != 0 {
		t.Error("a package that is not concurrent is in a race tier")
	}
}
