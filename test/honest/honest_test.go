//go:build linux

package honest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/internal/core/needs"
	"palyra/internal/core/tool"
	"palyra/test/process"
)

// row is a tool that must work inside as it does outside.
type row struct {
	name string
	// files are in the workspace before the run. before is a shell script that runs outside, as
	// the user of the run, and prepares the workspace further.
	files  files
	before string
	// script runs inside, by a shell in the workspace. want is a regular expression for its whole
	// output, and made are files that the commit must leave in the workspace.
	script string
	want   string
	made   files
	// quick rows also run in `make test`; tierB marks rows that run in Tier B as well.
	quick, tierB bool
}

// files are contents by path.
type files map[string]string

func rows() []row {
	return slices.Concat(compiled(), interpreted(), versioned(), ordinary(), served())
}

// base is the directory of the programs and workspaces; every user can traverse it.
var base string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "honest:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if base, err = os.MkdirTemp("", "palyra-honest-"); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(base)) }()
	if err := os.Chmod(base, 0o755); err != nil {
		return 1, err
	}
	if err := process.Install(base, "palyrad"); err != nil {
		return 1, err
	}
	code = m.Run()
	refused.print()
	return code, nil
}

// ordinaryUser is a uid without an account.
const ordinaryUser = 31338

// caller is a user that runs the table.
type caller struct {
	name string
	id   int
}

func callers() []caller {
	if os.Geteuid() != 0 {
		return []caller{{"user", os.Geteuid()}}
	}
	return []caller{{"root", 0}, {"user", ordinaryUser}}
}

// TestHonestWork runs every row as every caller, in each tier of the row. `make test` runs the
// quick rows.
func TestHonestWork(t *testing.T) {
	t.Parallel()
	needs.Sandbox(t)
	long := needs.Long(5 * time.Minute)
	all := rows()
	if len(all) < 40 {
		t.Fatalf("the table has %d rows", len(all))
	}
	for _, c := range callers() {
		for _, r := range all {
			if !long && !r.quick {
				continue
			}
			tiers := []string{"c"}
			if r.tierB {
				tiers = append(tiers, "b")
			}
			for _, tier := range tiers {
				t.Run(c.name+"/"+tier+"/"+r.name, func(t *testing.T) {
					t.Parallel()
					r.try(t, c, tier)
				})
			}
		}
	}
}

// try runs a row and checks its output and its files.
func (r row) try(t *testing.T, c caller, tier string) {
	dir := must.Get(os.MkdirTemp(base, "row-"))(t)
	workspace, report := filepath.Join(dir, "work"), filepath.Join(dir, "report.json")
	must.Do(t, errors.Join(os.Mkdir(workspace, 0o755), os.WriteFile(filepath.Join(dir, ".gitconfig"), []byte("[user]\n\tname = a\n\temail = a@example.org\n"), 0o644)))
	for name, text := range r.files {
		path := filepath.Join(workspace, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
	}
	must.Do(t, filepath.Walk(dir, func(path string, _ os.FileInfo, err error) error {
		return errors.Join(err, os.Chown(path, c.id, c.id))
	}))
	if r.before != "" {
		c.command(t, dir, "sh", "-ec", "cd work; "+r.before).Want(t, 0)
	}
	words := []string{
		filepath.Join(base, "palyrad"), "sandbox", "exec", "--tier", tier, "--workspace", workspace, "--cow", "--commit", "yes", "--report", report, "--timeout", "110s", "--",
		"/bin/sh", "-c", r.script,
	}
	out := c.command(t, dir, words...)
	refused.add(t, r.name, report)
	if out.Code != 0 || !regexp.MustCompile(`^(?:`+r.want+`)\n?$`).MatchString(out.Out) {
		const most = 2000
		t.Fatalf("exit code %d, stdout %q, want 0 and %q\nstderr: %.*s", out.Code, out.Out, r.want, most, out.Err)
	}
	for name, want := range r.made {
		got := must.Get(os.ReadFile(filepath.Join(workspace, name)))(t)
		if strings.TrimSpace(string(got)) != want {
			t.Errorf("%s is %q in the workspace, want %q", name, got, want)
		}
	}
}

// command runs a program outside as the caller.
func (c caller) command(t *testing.T, home string, words ...string) process.Result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Dir, cmd.Env = home, append(process.Environment(home), "TMPDIR="+home)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(c.id), Gid: uint32(c.id)}}
	}
	return process.Finish(t, cmd)
}

// refusals are the system calls that the sandbox refused and reported, by row.
type refusals struct {
	mu   sync.Mutex
	rows map[string]map[string]bool
}

var refused = &refusals{rows: map[string]map[string]bool{}}

func (r *refusals) add(t *testing.T, name, report string) {
	t.Helper()
	text, err := os.ReadFile(report)
	if err != nil {
		return // the run failed before its report, which the caller reports
	}
	var ran struct{ Violations []tool.Violation }
	must.Do(t, json.Unmarshal(text, &ran))
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.rows[name] == nil {
		r.rows[name] = map[string]bool{}
	}
	for _, v := range ran.Violations {
		r.rows[name][fmt.Sprintf("%s(%s)", v.Syscall, filepath.Base(v.Executable))] = true
	}
}

// print writes a line for each row.
func (r *refusals) print() {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(r.rows)) {
		calls := strings.Join(slices.Sorted(maps.Keys(r.rows[name])), ", ")
		if calls == "" {
			calls = "nothing"
		}
		fmt.Fprintf(&b, "%-24s refused: %s\n", name, calls)
	}
	fmt.Printf("%s%d rows on %d processors\n", b.Bytes(), len(r.rows), runtime.NumCPU())
}
