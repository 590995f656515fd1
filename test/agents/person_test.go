//go:build unix

package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/core/must"
	"palyra/test/process"
)

// person is a user with their own home directory, the agents, and a palyrad that `palyra up`
// started.
type person struct {
	t     *testing.T
	model *model
	// home, workspace and bin are the person's directories; bin has copies of the programs, so
	// that a test can replace one.
	home, workspace, bin string
	// more holds further variables of the person's environment.
	more []string
	// uid is the user id of the person's processes; 0 means the test's own.
	uid int
}

// policies decide the calls of the tests: a line that starts with "echo free" runs, a line that
// starts with "echo forbidden" is denied, and every other call requires approval.
const policies = `
@id("test.free")
@reason("a test")
@waives("approval: a test")
permit(principal, action in [Action::"tool.execute/claude-code/Bash", Action::"tool.execute/codex/exec"], resource)
when { context.sandbox.tier == "external" && context.args.command like "echo free*" };

@id("test.forbidden")
@reason("a test forbids it")
@severity("high")
forbid(principal, action in [Action::"tool.execute/claude-code/Bash", Action::"tool.execute/codex/exec"], resource)
when { context.args.command like "echo forbidden*" };
`

// somebodyThere requires presence for the approval of lines that start with "echo present".
const somebodyThere = `
@id("test.present")
@reason("a test wants somebody there")
forbid(principal, action in [Action::"tool.execute/claude-code/Bash", Action::"tool.execute/codex/exec"], resource)
when { context.args.command like "echo present*" }
unless { context.approval.votes.contains({ role: "*", surface: "cli", paired: true, present: true }) };
`

// configuration sets the shortest wait for approvals.
const configuration = "[approvals]\ndefault_timeout = \"30s\"\n"

// codexModel configures Codex to use the test's model.
const codexModel = `# Kept by palyra up, as every line here.
model = "gpt-5"
model_provider = "played"

[model_providers.played]
name = "played"
base_url = "%s/v1"
wire_api = "responses"
env_key = "PLAYED_KEY"
request_max_retries = 0
stream_max_retries = 0
`

func newPerson(t *testing.T) *person {
	p := newPersonIn(t, t.TempDir())
	t.Cleanup(p.leave)
	return p
}

// newPersonIn is newPerson with all directories below dir, and without running `palyra up`.
func newPersonIn(t *testing.T, dir string) *person {
	p := &person{t: t, model: newModel(t), home: filepath.Join(dir, "home"), bin: filepath.Join(dir, "bin")}
	p.workspace = filepath.Join(p.home, "project")
	// Codex creates no helpers below the directory for temporary files, so the home has a separate
	// one.
	for _, d := range []string{p.workspace, p.bin, filepath.Join(p.home, "tmp")} {
		must.Do(t, os.MkdirAll(d, 0o700))
	}
	for _, program := range []string{"palyrad", "palyra", "palyra-hook"} {
		must.Do(t, copyProgram(filepath.Join(programs, program), filepath.Join(p.bin, program)))
	}
	p.write(".config/palyra/policies/test.cedar", policies+somebodyThere)
	p.write(".config/palyra/palyra.toml", configuration)
	p.write(".codex/config.toml", fmt.Sprintf(codexModel, p.model.url))
	p.write(".claude/settings.json", "{\n\n  \"cleanupPeriodDays\":   30\n}\n")
	return p
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Close()
}

func (p *person) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.home, name)
	must.Do(p.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must.Do(p.t, os.WriteFile(path, []byte(text), 0o600))
}

func (p *person) env() []string {
	return append([]string{"HOME=" + p.home, "PATH=" + p.bin + ":" + strings.Join(agents, ":") + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "LANG=C.UTF-8", "TERM=dumb", "TMPDIR=" + filepath.Join(p.home, "tmp")}, p.more...)
}

// palyra runs a palyra command and waits until it exits.
func (p *person) palyra(args ...string) process.Result {
	p.t.Helper()
	return p.program("palyra", args...)
}

// program runs one of the person's programs and waits until it exits.
func (p *person) program(name string, args ...string) process.Result {
	p.t.Helper()
	return process.Finish(p.t, p.command(filepath.Join(p.bin, name), args...))
}

// command returns a command that runs a program as the person, in their workspace.
func (p *person) command(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Dir, cmd.Env = p.workspace, p.env()
	if p.uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(p.uid), Gid: uint32(p.uid)}}
	}
	return cmd
}

// types runs palyra at a terminal and types these lines.
func (p *person) types(lines string, args ...string) process.Result {
	p.t.Helper()
	return process.AtTerminal(p.t, p.command(filepath.Join(p.bin, "palyra"), args...), lines)
}

// up runs `palyra up` for both agents.
func (p *person) up() {
	p.t.Helper()
	p.palyra("up", "--yes", "--service", "detached").Want(p.t, 0)
}

// leave undoes `palyra up`, whether or not the test passed.
func (p *person) leave() {
	if p.t.Failed() {
		log, _ := os.ReadFile(filepath.Join(p.home, ".local/state/palyra-cli/run/palyrad.log"))
		p.t.Logf("palyrad's log:\n%s", log)
	}
	if pid := p.pid(); pid != 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		p.gone(pid)
	}
}

// pid returns the process id of palyrad, or 0 if none runs.
func (p *person) pid() int {
	text, err := os.ReadFile(filepath.Join(p.home, ".local/state/palyra-cli/run/palyrad.pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(bytes.SplitN(text, []byte("\n"), 2)[0])))
	if err != nil || syscall.Kill(pid, 0) != nil {
		return 0
	}
	return pid
}

// ended reports whether a process has exited, even if its parent has not waited for it.
func ended(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

// gone waits until a process has exited, even after the test's context is done.
func (p *person) gone(pid int) {
	tick, patience := time.NewTicker(10*time.Millisecond), time.After(must.Patience)
	defer tick.Stop()
	for !ended(pid) {
		select {
		case <-tick.C:
		case <-patience:
			p.t.Errorf("process %d does not end", pid)
			return
		}
	}
}

// ask is a pending approval.
type ask struct {
	ID     string `json:"approval_id"`
	Digest string `json:"call_digest"`
}

// waiting waits for the approval that the running agent requests.
func (p *person) waiting(c *process.Child) (a ask) {
	p.t.Helper()
	must.Eventually(p.t, "a call waits for a person", func() (bool, string) {
		r := p.palyra("approvals", "list", "-o", "json")
		var list struct {
			Items []json.RawMessage `json:"items"`
		}
		if r.Code != 0 || json.Unmarshal([]byte(r.Out), &list) != nil || len(list.Items) == 0 {
			select {
			case <-c.Ended:
				p.t.Fatalf("the agent ended and nothing waited:\n%s\n%s\nthe model was told:\n%s", c.Out, c.Err, p.model.results())
			default:
			}
			return false, r.Out + r.Err
		}
		must.Do(p.t, json.Unmarshal(list.Items[0], &a))
		return true, ""
	})
	return a
}

// mark returns a shell line that creates a file, and a function that reports whether the file
// exists, which means that the tool ran.
func (p *person) mark(name string) (line string, made func() bool) {
	path := filepath.Join(p.workspace, name)
	return "echo " + name + " > " + name, func() bool {
		_, err := os.Stat(path)
		return err == nil
	}
}

// in returns the person for use in a subtest.
func (p *person) in(t *testing.T) *person {
	same := *p
	same.t = t
	return &same
}

// stop ends palyrad with a signal, without `palyra down`.
func (p *person) stop(pid int) {
	p.t.Helper()
	must.Do(p.t, syscall.Kill(pid, syscall.SIGTERM))
	p.gone(pid)
}

// removeAll removes marks of earlier runs.
func removeAll(dir string, names ...string) error {
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}
