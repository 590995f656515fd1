package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// slowestCount is how many packages and tests the summary names.
const slowestCount = 10

// printStart prints the tiers and the machine, and one line for each unmet need, before any test
// runs.
func (s *session) printStart(chosen []tier, problems map[string]string) {
	names := make([]string, 0, len(chosen))
	for _, t := range chosen {
		names = append(names, t.name)
	}
	fmt.Fprintf(s.out, "== %s: %d processors, %d GiB of memory available, load average %s\n",
		strings.Join(names, ", "), runtime.NumCPU(), availableMemory(), cmp.Or(loadAverage(), "unknown"))
	for _, t := range chosen {
		if problem := t.problem(problems); problem != "" {
			fmt.Fprintf(s.out, "== %s does not run: %s\n", t.name, problem)
		}
	}
}

// printPackage prints a package that ended: one line, and the output of failed tests.
func printPackage(out io.Writer, p packageResult) {
	word := map[outcome]string{passed: "ok", failed: "FAIL", skipped: "none"}[p.Outcome]
	name := strings.TrimPrefix(p.Name, module+"/")
	took := fmt.Sprintf("%.1fs", p.Took.Seconds())
	if p.Cached {
		took = "cached"
	}
	fmt.Fprintf(out, "%-4s %-13s %-34s %s\n", word, p.Tier, name, took)
	for _, t := range p.Tests {
		if !t.bad() {
			continue
		}
		for line := range strings.Lines(t.Output) {
			fmt.Fprint(out, "     ", strings.TrimRight(line, "\n"), "\n")
		}
		if t.Outcome == unfinished {
			fmt.Fprintf(out, "     --- UNFINISHED: %s (the test process ended before it)\n", t.Name)
		}
	}
}

// printSummary prints the slowest packages and tests, the times of the tiers and, last, the
// failures with the command that runs them again. changed are the entries of the host that tests
// changed.
func (s *session) printSummary(ctx context.Context, changed []string) error {
	s.printSlowest()
	fmt.Fprintln(s.out, "== tiers")
	for _, r := range s.ended {
		note := ""
		switch {
		case r.took == 0 && r.problem != "":
			note = "did not run: " + r.problem
		case r.problem != "":
			note = r.problem
		case r.took > r.tier.budget:
			note = "over its budget of " + clock(r.tier.budget)
		}
		word := "ok"
		if r.outcome != passed {
			word = "FAIL"
		}
		fmt.Fprintf(s.out, "%-4s %-14s %7s  %s\n", word, r.tier.name, clock(r.took), note)
	}
	fmt.Fprintf(s.out, "all tiers: %s\n", clock(time.Since(s.started)))
	if ctx.Err() != nil {
		fmt.Fprintln(s.out, "interrupted: tests that did not run are not counted")
	}
	if len(changed) > 0 {
		fmt.Fprintln(s.out, "== the tests changed the machine; these entries are not as they were before:")
		for _, entry := range changed {
			fmt.Fprintln(s.out, "  "+entry)
		}
	}
	s.printFailed()
	pass, fail, skip := s.counts()
	_, err := fmt.Fprintf(s.out, "%d passed, %d failed, %d skipped\n", pass, fail, skip)
	return err
}

// printSlowest prints the slowest packages and tests, without cached ones.
func (s *session) printSlowest() {
	packages := slices.DeleteFunc(slices.Clone(s.results), func(p packageResult) bool { return p.Cached })
	slices.SortFunc(packages, func(a, b packageResult) int { return cmp.Compare(b.Took, a.Took) })
	var tests []testResult
	for _, p := range packages {
		for _, t := range p.Tests {
			if t.Name != "" && !strings.Contains(t.Name, "/") {
				tests = append(tests, t)
			}
		}
	}
	slices.SortFunc(tests, func(a, b testResult) int { return cmp.Compare(b.Took, a.Took) })
	if len(packages) == 0 {
		return
	}
	fmt.Fprintln(s.out, "== slowest packages")
	for _, p := range packages[:min(len(packages), slowestCount)] {
		fmt.Fprintf(s.out, "%7.1fs %-14s %s\n", p.Took.Seconds(), p.Tier, strings.TrimPrefix(p.Name, module+"/"))
	}
	fmt.Fprintln(s.out, "== slowest tests")
	for _, t := range tests[:min(len(tests), slowestCount)] {
		fmt.Fprintf(s.out, "%7.1fs %s %s\n", t.Took.Seconds(), t.Name, strings.TrimPrefix(t.Package, module+"/"))
	}
}

// printFailed prints each failed test with its command. Subtests replace the tests that failed only
// because of them.
func (s *session) printFailed() {
	var lines []string
	for _, p := range s.results {
		for _, t := range p.Tests {
			if t.bad() && !slices.ContainsFunc(p.Tests, func(o testResult) bool {
				return o.bad() && t.Name != "" && strings.HasPrefix(o.Name, t.Name+"/")
			}) {
				lines = append(lines, fmt.Sprintf("%s %s %s\n    %s", cmp.Or(t.Name, "package"), strings.TrimPrefix(t.Package, module+"/"), t.Outcome, t.Reproduce))
			}
		}
	}
	if len(lines) > 0 {
		fmt.Fprintln(s.out, "== failed, each with the command that runs it again")
		fmt.Fprintln(s.out, strings.Join(lines, "\n"))
	}
}

// counts returns the numbers of tests, subtests excepted. A package that failed without a
// failed test counts as one.
func (s *session) counts() (pass, fail, skip int) {
	for _, p := range s.results {
		for _, t := range p.Tests {
			switch {
			case strings.Contains(t.Name, "/"):
			case t.bad():
				fail++
			case t.Outcome == skipped:
				skip++
			default:
				pass++
			}
		}
	}
	for _, r := range s.ended {
		if r.took == 0 && r.problem != "" {
			fail++
		}
	}
	return pass, fail, skip
}

func clock(d time.Duration) string {
	return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
}

// The closing lines of Vitest ("Tests  2 failed | 310 passed (312)") and Playwright
// ("3 failed", "44 passed (3.1m)"), and their lines for one failed test.
var (
	vitestCount     = regexp.MustCompile(`(?m)^ *Tests +(?:(\d+) failed)?(?: \| )?(?:(\d+) passed)?`)
	playwrightCount = regexp.MustCompile(`(?m)^ +(\d+) (passed|failed|skipped|flaky)\b`)
	vitestFailure   = regexp.MustCompile(`(?m)^ *FAIL +(\S+) > (.*)$`)
	playwrightFault = regexp.MustCompile(`(?m)^ +✘ +\d+ (?:\[\w+\] › )?(\S+?\.spec\.ts:\d+):\d+ › (.*?)(?: \([\d.]+m?s\))?$`)
)

// commandResult returns the result of a tier from the output of its command.
func commandResult(t tier, text string, err error, took time.Duration) packageResult {
	p := packageResult{Tier: t.name, Name: strings.Join(t.command, " "), Outcome: passed, Took: took}
	pass := 0
	if m := vitestCount.FindStringSubmatch(text); m != nil {
		pass, _ = strconv.Atoi(m[2])
	}
	for _, m := range playwrightCount.FindAllStringSubmatch(text, -1) {
		if m[2] == "passed" {
			pass, _ = strconv.Atoi(m[1])
		}
	}
	for range pass {
		p.Tests = append(p.Tests, testResult{Package: t.name, Outcome: passed})
	}
	if err == nil {
		return p
	}
	p.Outcome = failed
	seen := map[string]bool{}
	note := func(name, reproduce string) {
		if !seen[name] {
			seen[name] = true
			p.Tests = append(p.Tests, testResult{Package: t.name, Name: name, Outcome: failed, Reproduce: reproduce})
		}
	}
	for _, m := range vitestFailure.FindAllStringSubmatch(text, -1) {
		note(strings.ReplaceAll(m[2], "/", "∕"), "make test-web SPEC="+shellQuote(m[1]))
	}
	for _, m := range playwrightFault.FindAllStringSubmatch(text, -1) {
		note(strings.ReplaceAll(m[2], "/", "∕"), "make test-browser SPEC="+shellQuote(m[1]))
	}
	if len(seen) == 0 {
		p.Tests = append(p.Tests, testResult{Package: t.name, Outcome: failed, Output: err.Error() + "\n", Reproduce: again(t) + " # " + exitOf(err)})
	}
	return p
}

// again returns the command that repeats a tier.
func again(t tier) string {
	switch t.name {
	case "web", browserTier:
		return "make test-" + t.name
	}
	return "bin/tiers run " + t.name
}

func exitOf(err error) string {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // exec returns it as it is
		return exit.String()
	}
	return err.Error()
}
