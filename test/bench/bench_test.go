//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/exec/sandbox/cgroup"
	"palyra/test/process"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
	} {
		if got := median(c.values); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(100 - i)
	}
	for _, c := range []struct {
		values  []float64
		p, want float64
	}{
		{nil, 99, 0},
		{[]float64{3}, 99, 3},
		{[]float64{1, 2}, 50, 1},
		{hundred, 99, 99},
		{hundred, 100, 100},
		{hundred, 1, 1},
	} {
		if got := percentile(c.values, c.p); got != c.want {
			t.Errorf("percentile(%d values, %v) = %v, want %v", len(c.values), c.p, got, c.want)
		}
	}
}

// A round in which the machine was slow affects both sides equally.
func TestRatioIsPerRound(t *testing.T) {
	t.Parallel()
	l := line{goal: "1", what: "call", floorName: "floor", unit: "us", limit: atMost(1.4)}
	l.add(100, 130)
	l.add(1000, 1300)
	l.add(110, 143)
	r := l.row()
	if r.Floor != 110 || r.Product != 143 || r.Ratio != 1.3 || r.Verdict != holds || r.Bound != "<= 1.40" {
		t.Errorf("the row is %+v", r)
	}
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		floor          string
		limit          limit
		floors, values float64
		want           string
	}{
		{"floor", atMost(2), 10, 20, holds},
		{"floor", atMost(2), 10, 21, misses},
		{"floor", atLeast(20), 10, 200, holds},
		{"floor", atLeast(20), 10, 199, misses},
		{"", atMost(60), 0, 60, holds},
		{"", atMost(60), 0, 61, misses},
		{"", atLeast(300), 0, 299, misses},
		{"", limit{}, 0, 1, ""},
	} {
		l := line{floorName: c.floor, limit: c.limit}
		l.add(c.floors, c.values)
		if got := l.row().Verdict; got != c.want {
			t.Errorf("%v of %v with goal %q: %q, want %q", c.values, c.floors, c.limit, got, c.want)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	l := line{goal: "7", what: "appends", floorName: "fdatasync", unit: "/s", limit: atLeast(20), note: "a note"}
	l.add(1000, 25_500)
	r := report{Machine: machine{CPUs: 2, Load: "0.10 0.20 0.30"}, Rounds: 1, Lines: []row{l.row(), unmeasured("3-governed-tier-c", errors.New("no bwrap"))}}
	var text bytes.Buffer
	must.Do(t, r.print(&text))
	for _, want := range []string{
		`7 +appends / fdatasync +1000 /s +25500 /s +25\.5 +>= 20 +holds`,
		`3 +governed tier c +- +- +- +not measured`,
		`^2 CPUs,.* load 0\.10 0\.20 0\.30 at the start`,
		`\n7 appends: a note\n\nnot measured: 1 of 2 lines\n  3 governed tier c: no bwrap\n$`,
	} {
		if !regexp.MustCompile(want).Match(text.Bytes()) {
			t.Errorf("the table does not hold %q:\n%s", want, &text)
		}
	}
	text.Reset()
	if err := (report{Lines: []row{l.row()}}).print(&text); err != nil || strings.Contains(text.String(), "not measured") {
		t.Errorf("every line has a figure, and the table says (%v):\n%s", err, &text)
	}
	path := filepath.Join(t.TempDir(), "deep", "bench.json")
	must.Do(t, r.write(path))
	written := must.Get(os.ReadFile(path))(t)
	var back report
	must.Do(t, json.Unmarshal(written, &back))
	if len(back.Lines) != 2 || back.Lines[0].Ratio != 25.5 || back.Lines[1].Verdict != notMeasured || back.At.IsZero() {
		t.Errorf("the JSON is %s", written)
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-rounds", "0"}, {"-events", "0"}, {"-asks", "-1"}, {"-run", "("}, {"more"}, {"-unknown"}} {
		if _, err := parse(args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v was accepted", args)
		}
	}
}

// TestSizes compares the programs of `make build` with the bounds.
func TestSizes(t *testing.T) {
	t.Parallel()
	if runtime.GOARCH != "amd64" {
		t.Skip("the bounds are those of linux/amd64")
	}
	dir := t.TempDir()
	for name, most := range map[string]int64{"palyrad": maxPalyrad, "palyra": maxPalyra} {
		must.Do(t, process.Install(dir, name))
		if size := must.Get(os.Stat(filepath.Join(dir, name)))(t).Size(); size > most {
			t.Errorf("%s has %d bytes, at most %d: `go run ./scripts/weight bin/palyrad bin/palyra` prints what weighs; remove it, "+
				"or write the weight of the new dependency into RATIONALE.md and add it to the bound in test/bench/start.go", name, size, most)
		}
	}
}

// Every goal runs with tiny sizes on the real programs.
func TestQuick(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, process.Install(dir, "palyrad", "palyra", "palyra-hook", "palyra-wasm"))
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "palyrainit", "-o", filepath.Join(dir, "bench"), ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building bench: %v\n%s", err, text)
	}
	out := filepath.Join(dir, "bench.json")
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bench"), "-quick", "-rounds", "2",
		"-dir", dir, "-palyrad", filepath.Join(dir, "palyrad"), "-json", out)
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	// Wall-clock time depends on other work on the machine. Processor time also grows under load:
	// on an idle machine it is 10 s.
	if used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(); used > 40*time.Second {
		t.Errorf("the quick run used %v of the processors; its sizes are to be so small that 40 s are plenty", used)
	}
	written, err := os.ReadFile(out)
	must.Do(t, err)
	var r report
	must.Do(t, json.Unmarshal(written, &r))
	tree := cgroup.Find()
	defer tree.Close()
	grouped := tree.Level() != cgroup.Rlimit
	seen := make(map[string]bool)
	for _, l := range r.Lines {
		seen[l.Goal] = true
		if l.Goal == "6" { // its peers come from the network
			if !strings.Contains(l.Note, "-quick installs nothing") {
				t.Errorf("goal 6 says %q", l.Note)
			}
			continue
		}
		if l.Goal == "27" { // it requires a browser and npm
			if !strings.Contains(l.Note, "-quick starts no browser") {
				t.Errorf("goal 27 says %q", l.Note)
			}
			continue
		}
		if !grouped && l.Verdict == notMeasured && strings.Contains(l.Note, "control group") {
			continue // a sandbox without them would be faster than the required one
		}
		// If an event must not happen at all, the expected value is zero.
		nothing := l.Product == 0 && l.Bound != "<= 0"
		if l.Verdict == notMeasured || nothing || (l.FloorName != "" && l.Ratio <= 0) {
			t.Errorf("%s %s was not measured: %+v", l.Goal, l.What, l)
		}
	}
	for _, m := range benchmarks {
		if goal, _, _ := strings.Cut(m.name, "-"); !seen[goal] {
			t.Errorf("the table has no row for goal %s:\n%s", goal, text)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "bench-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A goal that cannot be measured has a reason, and does not end the run.
func TestUnmeasured(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out, log bytes.Buffer
	err := runCommand(context.Background(), []string{
		"-quick", "-run", "^(1|9)-", "-dir", dir, "-palyrad", filepath.Join(dir, "none"), "-json", "",
	}, strings.NewReader(""), &out, &log)
	must.Do(t, err)
	for _, want := range []string{"palyrad was not found", "policy decision", "\nnot measured: 1 of "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the table does not say %q:\n%s", want, &out)
		}
	}
	if first, _, _ := strings.Cut(log.String(), "\n"); !regexp.MustCompile(`^bench: load averages .*: \d+\.\d+ \d+\.\d+ \d+\.\d+, on \d+ CPUs`).MatchString(first) {
		t.Errorf("the log starts with %q, and not with the load of the machine", first)
	}
}

// TestDayIsRealistic: the day is realistic for an agent on a laptop.
func TestDayIsRealistic(t *testing.T) {
	t.Parallel()
	calls := must.Get(readDay())(t)
	tools := map[string]int{}
	sitting := 1
	for i, c := range calls {
		tools[c.Tool]++
		if c.Sitting < sitting || c.Task == "" || !json.Valid(c.Input) || c.Answer != "" && c.Answer != "once" && c.Answer != "session" {
			t.Errorf("call %d: %+v", i+1, c)
		}
		sitting = c.Sitting
	}
	if len(calls) != 300 || tools["http.fetch"] != 1 || len(tools) != 7 || sitting < 2 {
		t.Errorf("%d calls in %d sittings: %v", len(calls), sitting, tools)
	}
}
