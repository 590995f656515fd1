package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// session is one run of the program. Its methods are safe for concurrent use, because tiers run in
// parallel.
type session struct {
	options
	out     io.Writer
	started time.Time

	mu      sync.Mutex
	results []packageResult
	ended   []tierResult
}

// tierResult is the result of a tier.
type tierResult struct {
	tier    tier
	outcome outcome
	took    time.Duration
	// problem is the reason why a tier did not run.
	problem string
}

// runTiers runs tiers in parallel and prints the summary. It returns errFailed if a test failed or
// a tier could not run.
func (s *session) runTiers(ctx context.Context, chosen []tier) error {
	if err := checkTiers(); err != nil {
		return err
	}
	chosen, err := s.choose(ctx, chosen)
	if err != nil {
		return err
	}
	return s.runChosen(ctx, chosen)
}

// runChosen runs tiers whose packages are chosen.
func (s *session) runChosen(ctx context.Context, chosen []tier) error {
	problems := s.provide(ctx, chosen)
	s.printStart(chosen, problems)
	host, err := lookAtHost(s.etc, s.null)
	if err != nil {
		return err
	}
	s.schedule(ctx, chosen, problems)
	changed := host.changes()
	if err := s.printSummary(ctx, changed); err != nil {
		return err
	}
	if s.report != "" {
		if err := s.writeReport(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted before all tests ended")
	}
	if len(changed) > 0 || s.failedTiers() > 0 {
		return errFailed
	}
	return nil
}

// choose assigns packages to each tier, and removes tiers without packages. Tiers other than Go
// tests run only if all packages are selected.
func (s *session) choose(ctx context.Context, chosen []tier) ([]tier, error) {
	all, err := listPackages(ctx, s.goTool, strings.Fields(s.packages)...)
	if err != nil {
		return nil, err
	}
	var out []tier
	raced := map[string]bool{}
	for _, t := range chosen {
		if t.in == nil {
			if s.everything() {
				out = append(out, t)
			}
			continue
		}
		for _, p := range all {
			if p.hasTests() && t.in(p) && !(t.remaining && raced[p.ImportPath]) {
				t.packages = append(t.packages, p)
			}
		}
		if t.affectedOnly && s.packages == "./..." {
			if err := s.keepAffected(ctx, &t, all); err != nil {
				return nil, err
			}
		}
		for _, p := range t.packages {
			raced[p.ImportPath] = raced[p.ImportPath] || t.flags.race
		}
		if len(t.packages) > 0 {
			longestFirst(t.name, t.packages)
			out = append(out, t)
		}
	}
	if len(out) == 0 && s.packages != "./..." {
		return nil, s.noTier(all)
	}
	return out, nil
}

// noTier returns the error for packages that none of the selected tiers tests.
func (s *session) noTier(all []pkg) error {
	var others []string
	for _, t := range tiers {
		if t.in != nil && slices.ContainsFunc(all, func(p pkg) bool { return p.hasTests() && t.in(p) }) {
			others = append(others, t.name)
		}
	}
	if len(others) == 0 {
		return fmt.Errorf("%s has no tests that a tier runs; bin/tiers list names the tiers", s.packages)
	}
	return fmt.Errorf("%s is in none of these tiers; run it with bin/tiers run -pkg %s %s", s.packages, s.packages, others[0])
}

// everything reports whether neither packages nor tests are chosen.
func (s *session) everything() bool { return s.packages == "./..." && s.run == "" }

// schedule runs tiers within the budget, in the order of the table.
func (s *session) schedule(ctx context.Context, chosen []tier, problems map[string]string) {
	b := newBudget(runtime.NumCPU(), availableMemory())
	var all sync.WaitGroup
	for _, t := range chosen {
		if problem := t.problem(problems); problem != "" {
			s.end(tierResult{tier: t, outcome: failed, problem: problem})
			continue
		}
		claim := b.take(t)
		all.Go(func() {
			defer b.give(claim)
			began := time.Now()
			result := tierResult{tier: t, outcome: passed}
			if err := s.runTier(ctx, t); err != nil {
				result.outcome = failed
				// The failed tests are reported, so the exit code is redundant.
				var exit *exec.ExitError
				if !errors.As(err, &exit) {
					result.problem = err.Error()
				}
			}
			result.took = time.Since(began)
			s.end(result)
		})
	}
	all.Wait()
}

// problem returns the reason why a tier cannot run, or "" if all its needs are met.
func (t tier) problem(problems map[string]string) string {
	var found []string
	for _, n := range t.needs {
		if p := problems[n.name]; p != "" {
			found = append(found, p)
		}
	}
	return strings.Join(found, "; ")
}

func (s *session) end(r tierResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = append(s.ended, r)
}

func (s *session) failedTiers() int {
	n := 0
	for _, r := range s.ended {
		if r.outcome != passed {
			n++
		}
	}
	return n
}

// runTier runs one tier. The error reports a failure; the results name the tests.
func (s *session) runTier(ctx context.Context, t tier) error {
	if t.suite == long {
		// Continuous integration has a fixed time limit, also for a long test.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, 3*t.budget, fmt.Errorf("the tier %s took three times its budget of %s", t.name, clock(t.budget)))
		defer cancel()
	}
	if t.in != nil {
		return s.runGo(ctx, t)
	}
	return s.runCommand(ctx, t)
}

// drainPatience is how long the output of an ended command is read while its child processes hold
// it open.
const drainPatience = 10 * time.Second

// runGo runs the packages of a tier by one go test command.
func (s *session) runGo(ctx context.Context, t tier) error {
	flags := t.flags
	flags.variables = t.environment()
	c := newCollector(t.name, flags, s.add)
	flags.run, flags.count = cmp.Or(s.run, flags.run), s.count
	words := append([]string{"test", "-json", "-vet=off", "-timeout", "25m", "-p", fmt.Sprint(processorsOf(t) + t.beside)}, flags.arguments()...)
	for _, p := range t.packages {
		words = append(words, p.ImportPath)
	}
	cmd := exec.CommandContext(ctx, s.goTool, words...)
	cmd.Env = append(os.Environ(), flags.environment()...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = drainPatience
	events, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	rest := &printer{session: s}
	cmd.Stderr = rest
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting go test: %w", err)
	}
	err = c.read(events, rest)
	if wait := cmd.Wait(); err == nil {
		err = wait
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx) // the reason for the stop
	}
	return err
}

// runCommand runs a tier that does not consist of Go tests.
func (s *session) runCommand(ctx context.Context, t tier) error {
	cmd := exec.CommandContext(ctx, t.command[0], t.command[1:]...)
	cmd.Env = append(os.Environ(), append([]string{"NO_COLOR=1"}, t.environment()...)...)
	cmd.WaitDelay = drainPatience
	log := &printer{session: s, prefix: t.name + ": "}
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	err := cmd.Run()
	s.add(commandResult(t, log.text.String(), err, time.Since(began)))
	return err
}

// environment returns the variables of a tier, with $PWD and $PATH replaced.
func (t tier) environment() []string {
	var all []string
	for _, variable := range t.variables {
		all = append(all, os.Expand(variable, func(name string) string {
			if name == "PWD" {
				return workingDirectory()
			}
			return os.Getenv(name)
		}))
	}
	return all
}

// add stores the result of a package and prints its line.
func (s *session) add(p packageResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, p)
	printPackage(s.out, p)
}

// printer copies lines to the session's output.
type printer struct {
	session *session
	prefix  string
	text    strings.Builder
	partial []byte
}

// Write implements io.Writer.
func (p *printer) Write(b []byte) (int, error) {
	p.session.mu.Lock()
	defer p.session.mu.Unlock()
	if p.text.Len() < maxOutput {
		p.text.Write(b)
	}
	p.partial = append(p.partial, b...)
	for {
		i := slices.Index(p.partial, '\n')
		if i < 0 {
			return len(b), nil
		}
		fmt.Fprintf(p.session.out, "%s%s\n", p.prefix, p.partial[:i])
		p.partial = p.partial[i+1:]
	}
}

// processorsOf returns the number of packages of a tier that run in parallel.
func processorsOf(t tier) int {
	if t.processors == 0 {
		return runtime.NumCPU()
	}
	return min(t.processors, runtime.NumCPU())
}
