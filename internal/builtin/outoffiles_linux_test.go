package builtin

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/must"
	"palyra/internal/reason"
	"palyra/internal/sandbox"
	"palyra/internal/tool"
)

// outOfFilesVariable has this test's own program be the child.
const outOfFilesVariable = "TEST_PALYRA_OUT_OF_FILES"

// TestToolsNameTheLimitOfFiles: however few files a tool may still open, it either
// works, or what its caller is told to do next is about that limit. The limit is that
// of a child.
func TestToolsNameTheLimitOfFiles(t *testing.T) {
	if os.Getenv(outOfFilesVariable) == "" {
		cmd := exec.CommandContext(t.Context(), must.Get(os.Executable())(t), "-test.run=^TestToolsNameTheLimitOfFiles$", "-test.v")
		cmd.Env = append(os.Environ(), outOfFilesVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v:\n%s", err, out)
		}
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
		_, err := (&sandbox.Resolver{}).ResolveExecutable("sh", []string{"/bin"})
		if err != nil {
			return fail(t.Context(), begin(""), err)
		}
		return tool.Report{Outcome: tool.Succeeded}
	})
}

// sweepFiles does something with no file left, one, two, ... until it succeeds.
func sweepFiles(t *testing.T, name string, do func() tool.Report) {
	t.Helper()
	failures := 0
	for free := range 32 {
		restore := leaveFiles(t, free)
		report := do()
		restore()
		if report.Outcome == tool.Succeeded {
			if failures == 0 {
				t.Errorf("%s needs no file: the limit is not in force", name)
			}
			return
		}
		failures++
		if !strings.Contains(report.Remedy, "LimitNOFILE") {
			t.Errorf("%s with %d files left: %s, %q, next: %q", name, free, report.Reason, report.Message, report.Remedy)
		}
	}
	t.Errorf("%s does not succeed with 32 files left", name)
}

// callWithin is how the router and the pipeline call a tool.
func callWithin(b *bench, p tool.Proposal) tool.Report {
	plan, err := b.tools[p.Tool.Name].Plan(b.t.Context(), p)
	if err != nil {
		return fail(b.t.Context(), begin(""), err)
	}
	return b.run(b.t.Context(), tool.Call{Proposal: p, Plan: plan})
}

// leaveFiles lowers the limit and takes all but a few of the files that it leaves.
func leaveFiles(t *testing.T, free int) (restore func()) {
	t.Helper()
	var old unix.Rlimit
	must.Do(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 64, Max: old.Max}))
	var taken []int
	for {
		fd, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if errors.Is(err, syscall.EMFILE) {
			break
		}
		must.Do(t, err)
		taken = append(taken, fd)
	}
	for range min(free, len(taken)) {
		must.Do(t, unix.Close(taken[0]))
		taken = taken[1:]
	}
	return func() {
		for _, fd := range taken {
			_ = unix.Close(fd)
		}
		must.Do(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	}
}

// TestResultNamesTheLimitOfFiles: the model reads the result, and not the report.
func TestResultNamesTheLimitOfFiles(t *testing.T) {
	r := fail(t.Context(), begin(""), reason.Errorf(reason.SpawnFailed, "the program cannot be read").WithCause(&os.PathError{Op: "open", Path: "/secret/place", Err: syscall.EMFILE}))
	var result failureResult
	must.Do(t, json.Unmarshal(r.Result, &result))
	if !strings.Contains(string(r.Result), "LimitNOFILE") || strings.Contains(string(r.Result), "secret/place") {
		t.Errorf("the result is %s", r.Result)
	}
}
