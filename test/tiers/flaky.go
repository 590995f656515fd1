package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// defaultRuns is how often flaky runs a package.
const defaultRuns = 50

// browserTier is the name of the browser tier, which flaky accepts in place of Go packages.
const browserTier = "browser"

// burnCommand is the hidden command of a process that keeps one processor busy.
const burnCommand = "burn"

// burn keeps a processor busy until the process is killed.
func burn() {
	for n := uint64(0); ; n++ {
		if n == 0 {
			runtime.Gosched()
		}
	}
}

// runFlaky runs each named package many times while every processor is busy, and prints
// how often each test failed, with the output of its first failure.
func (s *session) runFlaky(ctx context.Context) error {
	if s.packages == "./..." {
		return fmt.Errorf("flaky runs chosen packages: set PKG, for example PKG=./internal/surface/hook, or PKG=browser")
	}
	stop, err := startLoad(ctx)
	if err != nil {
		return err
	}
	defer stop()
	if s.packages == browserTier {
		return s.repeatBrowser(ctx)
	}
	all, err := listPackages(ctx, s.goTool, strings.Fields(s.packages)...)
	if err != nil {
		return err
	}
	failures := 0
	for _, p := range all {
		if !p.hasTests() {
			continue
		}
		n, err := s.repeat(ctx, p)
		if err != nil {
			return err
		}
		failures += n
	}
	if failures > 0 {
		return errFailed
	}
	return nil
}

// repeatBrowser runs each test of the browser tier many times; Playwright prints the
// failures.
func (s *session) repeatBrowser(ctx context.Context) error {
	chosen, err := named([]string{browserTier})
	if err != nil {
		return err
	}
	t := chosen[0]
	t.command = append(slices.Clone(t.command), fmt.Sprintf("--repeat-each=%d", cmp.Or(s.count, defaultRuns)))
	if s.run != "" {
		t.command = append(t.command, "--grep", s.run)
	}
	if s.runCommand(ctx, t) != nil {
		return errFailed
	}
	return nil
}

// startLoad starts a busy process for each processor, and returns a function that ends them.
func startLoad(ctx context.Context) (stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var started []*exec.Cmd
	stop = func() {
		for _, cmd := range started {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	for range runtime.NumCPU() {
		cmd := exec.CommandContext(ctx, self, burnCommand)
		if err := cmd.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("starting the load: %w", err)
		}
		started = append(started, cmd)
	}
	return stop, nil
}

// repeat builds the tests of a package once and runs them many times. It returns the
// number of runs that failed.
func (s *session) repeat(ctx context.Context, p pkg) (failures int, err error) {
	flags := goFlags{race: s.race, programs: true}
	binary := filepath.Join(os.TempDir(), strings.ReplaceAll(p.ImportPath, "/", "_")+".test")
	build := exec.CommandContext(ctx, s.goTool, append(append([]string{"test", "-c", "-o", binary}, flags.arguments()...), p.ImportPath)...)
	build.Env = append(os.Environ(), flags.environment()...)
	if out, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the tests of %s: %w\n%s", p.ImportPath, err, out)
	}
	runs := cmp.Or(s.count, defaultRuns)
	failed, output := map[string]int{}, map[string]string{}
	began := time.Now()
	for range runs {
		result := s.once(ctx, p, binary, flags)
		if ctx.Err() != nil {
			return failures, ctx.Err()
		}
		if result.Outcome == passed {
			continue
		}
		failures++
		for _, t := range result.Tests {
			if t.bad() {
				failed[t.Name]++
				if output[t.Name] == "" {
					output[t.Name] = t.Output
				}
			}
		}
	}
	fmt.Fprintf(s.out, "%s: %d of %d runs failed, with a busy process on each of %d processors (%s)\n", strings.TrimPrefix(p.ImportPath, module+"/"), failures, runs, runtime.NumCPU(), clock(time.Since(began)))
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		fmt.Fprintf(s.out, "  %s failed %d times; the first time:\n", cmp.Or(name, "the package"), failed[name])
		for line := range strings.Lines(output[name]) {
			fmt.Fprintf(s.out, "    %s\n", strings.TrimRight(line, "\n"))
		}
	}
	return failures, nil
}

// once runs the built tests of a package one time, in the package's folder as go test does.
func (s *session) once(ctx context.Context, p pkg, binary string, flags goFlags) (result packageResult) {
	words := []string{"tool", "test2json", "-p", p.ImportPath, binary, "-test.v=test2json", "-test.paniconexit0", "-test.timeout=25m"}
	if s.run != "" {
		words = append(words, "-test.run", s.run)
	}
	cmd := exec.CommandContext(ctx, s.goTool, words...)
	cmd.Dir = p.Dir
	cmd.Env = append(os.Environ(), flags.environment()...)
	cmd.WaitDelay = drainPatience
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return packageResult{Outcome: failed, Tests: []testResult{{Outcome: failed, Output: err.Error()}}}
	}
	rest := new(strings.Builder)
	cmd.Stderr = rest
	c := newCollector("flaky", flags, func(r packageResult) { result = r })
	_ = c.read(events, rest)
	if err := cmd.Wait(); err != nil && result.Outcome != failed {
		result = packageResult{Outcome: failed, Tests: []testResult{{Outcome: failed, Output: err.Error() + "\n" + rest.String()}}}
	}
	return result
}
