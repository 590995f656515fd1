package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

var fuzzFunctions = regexp.MustCompile(`(?m)^func (Fuzz[A-Z_0-9]\w*)\(\w* ?\*testing\.F\)`)

// fuzzTarget is one fuzz test.
type fuzzTarget struct {
	pkg  pkg
	name string
}

// runFuzz runs each fuzz target for a fixed time. If the budget is too short for all, each commit
// starts at another target, and the number of skipped targets is printed.
func (s *session) runFuzz(ctx context.Context) error {
	targets, err := s.fuzzTargets(ctx)
	if err != nil {
		return err
	}
	commit, err := commitNumber(ctx, "HEAD")
	if err != nil {
		commit = 0 // a copy without git starts at the first
	}
	left := slices.Concat(targets, targets)[commit%len(targets):][:len(targets)]
	for len(left) > 0 && (s.within == 0 || time.Since(s.started) < s.within) {
		target := left[0]
		left = left[1:]
		fmt.Fprintf(s.out, "fuzzing %s of %s for %v\n", target.name, target.pkg.folder(workingDirectory()), s.each)
		flags := goFlags{run: "^$"}
		cmd := exec.CommandContext(ctx, s.goTool, append(append([]string{"test", "-vet=off", "-fuzz", "^" + target.name + "$", "-fuzztime", s.each.String()}, flags.arguments()...), target.pkg.ImportPath)...)
		cmd.Env = append(os.Environ(), flags.environment()...)
		cmd.Stdout, cmd.Stderr = s.out, s.out
		cmd.WaitDelay = drainPatience
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("fuzzing %s: %w; go test printed the command that repeats the failing input", target.name, err)
		}
	}
	fmt.Fprintf(s.out, "%d fuzz targets ran, %d were left out\n", len(targets)-len(left), len(left))
	return nil
}

// fuzzTargets returns all fuzz tests of the chosen packages.
func (s *session) fuzzTargets(ctx context.Context) ([]fuzzTarget, error) {
	all, err := listPackages(ctx, s.goTool, strings.Fields(s.packages)...)
	if err != nil {
		return nil, err
	}
	var targets []fuzzTarget
	for _, p := range all {
		for _, source := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, source))
			if err != nil {
				return nil, err
			}
			for _, m := range fuzzFunctions.FindAllSubmatch(text, -1) {
				targets = append(targets, fuzzTarget{p, string(m[1])})
			}
		}
	}
	if len(targets) == 0 {
		return nil, fmt.Errorf("no fuzz target is in %s", s.packages)
	}
	return targets, nil
}
