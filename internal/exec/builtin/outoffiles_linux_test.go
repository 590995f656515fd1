package builtin

import (
	"encoding/json"
	"os"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/reason/reasontest"
	"palyra/internal/core/tool"
	"palyra/internal/exec/program/command"
)

// TestToolsNameTheLimitOfFiles: for every number of free file descriptors, a tool either works,
// or its error names the limit of open files. The limit is set in a child process.
func TestToolsNameTheLimitOfFiles(t *testing.T) {
	t.Parallel()
	if !reasontest.FewFiles(t) {
		return
	}
	b := newBench(t, nil)
	b.write("src/a.txt", "hello\n")
	for name, input := range map[string]any{
		"fs.read":   map[string]any{"path": "src/a.txt"},
		"fs.list":   map[string]any{"path": "src"},
		"fs.search": map[string]any{"path": "src", "pattern": "hel"},
		"fs.write":  map[string]any{"path": "src/b.txt", "content": "new"},
	} {
		sweepFiles(t, name, func() tool.Report {
			p, err := b.propose(name, input)
			must.Do(t, err)
			return callWithin(b, p)
		})
	}
	sweepFiles(t, "finding a program", func() tool.Report {
		_, err := (&command.Resolver{}).ResolveExecutable("sh", []string{"/bin"})
		if err != nil {
			return begin("").Fail(t.Context(), err)
		}
		return tool.Report{Outcome: tool.Succeeded}
	})
}

func sweepFiles(t *testing.T, name string, do func() tool.Report) {
	t.Helper()
	reasontest.SweepFiles(t, name, 64, 32, func() (string, bool) {
		report := do()
		return report.Remedy, report.Outcome == tool.Succeeded
	})
}

// callWithin calls a tool like the router and the pipeline.
func callWithin(b *bench, p tool.Proposal) tool.Report {
	plan, err := b.tools[p.Tool.Name].Plan(b.t.Context(), p)
	if err != nil {
		return begin("").Fail(b.t.Context(), err)
	}
	return b.run(b.t.Context(), tool.Call{Proposal: p, Plan: plan})
}

// TestResultNamesTheLimitOfFiles: the result names the limit as well, because models do not
// receive the report.
func TestResultNamesTheLimitOfFiles(t *testing.T) {
	t.Parallel()
	r := begin("").Fail(t.Context(), reason.Errorf(reason.SpawnFailed, "the program cannot be read").WithCause(&os.PathError{Op: "open", Path: "/secret/place", Err: syscall.EMFILE}))
	var result struct{ Error tool.Failure }
	must.Do(t, json.Unmarshal(r.Result, &result))
	if !strings.Contains(string(r.Result), "LimitNOFILE") || strings.Contains(string(r.Result), "secret/place") {
		t.Errorf("the result is %s", r.Result)
	}
}
