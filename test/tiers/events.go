package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// event is a line of "go test -json"; see "go doc test2json".
type event struct {
	Action      string
	Package     string
	ImportPath  string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
}

// outcome is how a test or package ended.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
	// unfinished tests started and did not end: their process died or was stopped.
	unfinished outcome = "unfinished"
)

// testResult is one test or subtest of a package or of the console.
type testResult struct {
	// Package is the import path, or the folder of the console's tests.
	Package string
	// Name is "" for output of the package outside its tests.
	Name    string
	Outcome outcome
	Took    time.Duration
	// Output is kept for tests that did not pass.
	Output string
	// Reproduce is the command line that runs it again.
	Reproduce string
}

// packageResult is one package of a tier.
type packageResult struct {
	Tier    string
	Name    string
	Outcome outcome
	Took    time.Duration
	Cached  bool
	Tests   []testResult
}

// collector makes results from the events of one go test command.
type collector struct {
	tier  string
	flags goFlags
	// report is called with each package that ended.
	report   func(packageResult)
	packages map[string]*gathering
	builds   map[string]*strings.Builder
}

// gathering is a package whose tests still run.
type gathering struct {
	result packageResult
	// output is the output of running tests so far; "" is the package itself.
	output map[string]*strings.Builder
}

func newCollector(tier string, flags goFlags, report func(packageResult)) *collector {
	return &collector{tier: tier, flags: flags, report: report, packages: map[string]*gathering{}, builds: map[string]*strings.Builder{}}
}

// read reads events until the end. A line that is not an event, such as a message of the go
// command, is copied to rest.
func (c *collector) read(r io.Reader, rest io.Writer) error {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if line[0] != '{' || json.Unmarshal(line, &e) != nil {
				_, _ = rest.Write(line)
			} else {
				c.add(e)
			}
		}
		if err == io.EOF {
			c.abandon()
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading the events of go test: %w", err)
		}
	}
}

// abandon reports the packages that have not ended because go test was stopped.
func (c *collector) abandon() {
	for _, name := range slices.Sorted(maps.Keys(c.packages)) {
		c.packages[name].finish(c, event{Package: name, Action: string(failed)})
	}
	clear(c.packages)
}

func (c *collector) add(e event) {
	if e.Action == "build-output" {
		c.build(e.ImportPath).WriteString(e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := c.packages[e.Package]
	if p == nil {
		p = &gathering{result: packageResult{Tier: c.tier, Name: e.Package}, output: map[string]*strings.Builder{}}
		c.packages[e.Package] = p
	}
	switch e.Action {
	case "run", "start":
		p.output[e.Test] = new(strings.Builder)
	case "output":
		p.write(e)
	case string(passed), string(failed), string(skipped):
		if e.Test != "" {
			p.end(c, e)
			return
		}
		p.finish(c, e)
		delete(c.packages, e.Package)
	}
}

func (c *collector) build(path string) *strings.Builder {
	if c.builds[path] == nil {
		c.builds[path] = new(strings.Builder)
	}
	return c.builds[path]
}

// maxOutput is the highest size of the stored output of one test.
const maxOutput = 1 << 20

func (p *gathering) write(e event) {
	b := p.output[e.Test]
	if b == nil {
		b = new(strings.Builder)
		p.output[e.Test] = b
	}
	if e.Test == "" && strings.HasPrefix(e.Output, "ok ") && strings.HasSuffix(strings.TrimSpace(e.Output), "(cached)") {
		p.result.Cached = true
	}
	if b.Len() < maxOutput && !isNoise(e.Output) {
		b.WriteString(e.Output)
	}
}

// isNoise reports whether a line of output only repeats the events.
func isNoise(line string) bool {
	line = strings.TrimLeft(line, " ")
	for _, prefix := range []string{"=== RUN", "=== PAUSE", "=== CONT", "=== NAME", "--- PASS", "--- SKIP"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// end stores the result of a test.
func (p *gathering) end(c *collector, e event) {
	t := testResult{Package: e.Package, Name: e.Test, Outcome: outcome(e.Action), Took: seconds(e.Elapsed)}
	if b := p.output[e.Test]; b != nil && t.Outcome != passed {
		t.Output = b.String()
	}
	if t.Outcome == failed {
		t.Reproduce = c.flags.reproduce(e.Package, e.Test)
	}
	delete(p.output, e.Test)
	p.result.Tests = append(p.result.Tests, t)
}

// finish reports a package that ended. Tests that still ran have failed with it.
func (p *gathering) finish(c *collector, e event) {
	p.result.Outcome, p.result.Took = outcome(e.Action), seconds(e.Elapsed)
	own := ""
	if b := p.output[""]; b != nil {
		own = b.String()
	}
	delete(p.output, "")
	for _, name := range slices.Sorted(maps.Keys(p.output)) {
		p.result.Tests = append(p.result.Tests, testResult{
			Package: e.Package, Name: name, Outcome: unfinished, Output: p.output[name].String(), Reproduce: c.flags.reproduce(e.Package, name),
		})
	}
	if p.result.Outcome == failed {
		if b := c.builds[e.FailedBuild]; b != nil {
			own = b.String() + own
		}
		// The package does not compile, or TestMain failed after the tests.
		if own = strings.TrimSpace(withoutVerdict(own)); own != "" || !slices.ContainsFunc(p.result.Tests, testResult.bad) {
			p.result.Tests = append(p.result.Tests, testResult{Package: e.Package, Outcome: failed, Output: own + "\n", Reproduce: c.flags.reproduce(e.Package, "")})
		}
	}
	c.report(p.result)
}

// withoutVerdict removes the lines that only repeat that a package failed.
func withoutVerdict(output string) string {
	var kept []string
	for line := range strings.Lines(output) {
		if !strings.HasPrefix(line, "FAIL") && !strings.HasPrefix(line, "exit status ") && !strings.HasPrefix(line, "PASS") && !strings.HasPrefix(line, "coverage: ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func (t testResult) bad() bool { return t.Outcome == failed || t.Outcome == unfinished }

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
