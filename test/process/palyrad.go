package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"testing"

	"palyra/internal/core/must"
	"palyra/test/leaks"
)

// Palyrad is one palyrad with directories of its own, which may be started,
// stopped and killed any number of times.
type Palyrad struct {
	T *testing.T
	// Program is palyrad; Wrap comes before it on its command line, and Env is
	// added to its environment.
	Program string
	Wrap    []string
	Env     []string
	// MayEnd is true where palyrad may have ended by itself before a signal.
	MayEnd bool
	// Dir holds all that follows.
	Dir, State, Policies, Workspace, Config string

	// Child is the process that was started last, nil before the first.
	*Child

	// told is what each process of it, and whoever asked it, wrote.
	told *told
	// secrets must not be told beside its keys.
	secrets []leaks.Key
}

// Secret is what a command showed once, such as a PIN or the link of a pairing code: the
// test fails when it stands in anything that palyrad left, or that was noted.
func (p *Palyrad) Secret(name, text string) {
	p.secrets = append(p.secrets, leaks.Shown(name, text)...)
}

// Keeps is what the vault was given, or the beginning of it: the test fails when it
// stands in anything that palyrad left, or that was noted.
func (p *Palyrad) Keeps(name, value string) { p.secrets = append(p.secrets, leaks.Kept(name, value)) }

// Beside looks for the keys of another gateway, too. Call it while that has them.
func (p *Palyrad) Beside(other *Palyrad) {
	p.T.Helper()
	p.secrets = append(p.secrets, must.Get(leaks.Gather(other.Dir))(p.T)...)
}

// told is what was said, by who said it. It is safe for concurrent use.
type told struct {
	mu    sync.Mutex
	texts map[string]*Output
}

func (o *told) note(who string, outputs ...*Output) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, output := range outputs {
		o.texts[fmt.Sprintf("what %s wrote (%d)", who, len(o.texts))] = output
	}
}

// Note keeps what a process beside palyrad wrote, so that it is looked through for
// keys when the test ends. What a command is asked to show, such as an API token, is
// not noted.
func (p *Palyrad) Note(r Result) {
	p.told.note(fmt.Sprint(r.Args), &Output{text: []byte(r.Out)}, &Output{text: []byte(r.Err)})
}

// Watch is Note for a process that still runs.
func (p *Palyrad) Watch(c *Child) { p.told.note(fmt.Sprint(c.Cmd.Args[1:]), c.Out, c.Err) }

// NewPalyrad makes the directories below dir. When the test ends, a palyrad
// that still runs is ended, and its log is shown if the test failed.
func NewPalyrad(t *testing.T, program, dir string) *Palyrad {
	t.Helper()
	p := &Palyrad{
		T: t, Program: program, Dir: dir, State: filepath.Join(dir, "state"), Policies: filepath.Join(dir, "policies"),
		Workspace: filepath.Join(dir, "workspace"), Config: filepath.Join(dir, "palyra.toml"),
		told: &told{texts: map[string]*Output{}},
	}
	for _, d := range []string{p.Policies, p.Workspace} {
		must.Do(t, os.MkdirAll(d, 0o755)) //nolint:gosec // programs of other users look into them
	}
	t.Cleanup(p.cleanUp)
	return p
}

func (p *Palyrad) cleanUp() {
	if p.Child != nil {
		p.noteProcess()
		p.End(p.T)
	}
	p.keepsItsKeys()
	if p.Child != nil && p.T.Failed() {
		p.T.Logf("palyrad's log:\n%s", p.Log())
	}
}

// noteProcess notes what the kernel shows of a palyrad that runs, to whoever may ask.
func (p *Palyrad) noteProcess() {
	for _, name := range []string{"environ", "cmdline"} {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Cmd.Process.Pid, name)); err == nil {
			p.told.note("the kernel says of its "+name, &Output{text: text})
		}
	}
}

// keepsItsKeys fails the test when a private key stands in anything that palyrad left
// or that was said.
func (p *Palyrad) keepsItsKeys() {
	texts := map[string]string{}
	for who, text := range p.told.texts {
		texts[who] = text.String()
	}
	_, found, err := leaks.Look(p.Dir, texts, p.secrets...)
	must.Check(p.T, err)
	for _, l := range found {
		p.T.Errorf("a key was told: %s", l)
	}
}

// Log is what palyrad wrote since it was started last.
func (p *Palyrad) Log() *Output { return p.Err }

// Launch runs palyrad without waiting for anything.
func (p *Palyrad) Launch() {
	p.T.Helper()
	line := append(append([]string(nil), p.Wrap...), p.Program, "--config", p.Config)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(Environment(p.Dir), p.Env...)
	log := NewOutput()
	p.Child = begin(p.T, cmd, log, log)
	p.told.note("palyrad", log)
}

// ReadyLine is what palyrad logs once it listens.
var ReadyLine = regexp.MustCompile(`palyrad is ready" api=(\S+) metrics=(\S*)`)

// AwaitReady reports whether palyrad got ready; false means that it ended.
func (p *Palyrad) AwaitReady() bool { return p.Log().Await(ReadyLine, p.Ended) != nil }

// Start runs palyrad and waits until it is ready.
func (p *Palyrad) Start() {
	p.T.Helper()
	p.Launch()
	if !p.AwaitReady() {
		p.T.Fatalf("palyrad did not get ready:\n%s", p.Log())
	}
}

// Signal sends palyrad a signal.
func (p *Palyrad) Signal(s syscall.Signal) {
	p.T.Helper()
	p.noteProcess()
	err := p.Cmd.Process.Signal(s)
	if !p.MayEnd || !errors.Is(err, os.ErrProcessDone) {
		must.Do(p.T, err)
	}
}

// Stop ends palyrad in order and fails when that is no clean end.
func (p *Palyrad) Stop() {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	if r := p.Wait(p.T); r.Code != 0 {
		p.T.Fatalf("palyrad ended with exit code %d:\n%s", r.Code, p.Log())
	}
}

// Kill is SIGKILL: palyrad gets no chance to do anything.
func (p *Palyrad) Kill() {
	p.T.Helper()
	p.Signal(syscall.SIGKILL)
	p.Wait(p.T)
}

// Read returns a file of the workspace, "" when it does not exist.
func (p *Palyrad) Read(name string) string {
	p.T.Helper()
	text, err := os.ReadFile(filepath.Join(p.Workspace, name))
	if err != nil && !os.IsNotExist(err) {
		p.T.Fatal(err)
	}
	return string(text)
}

// Ask names an approval and the call that it is about.
type Ask struct{ ID, Digest string }

var askLines = regexp.MustCompile(`(?s)waiting for approval (\w{26}) .*--allow once --digest (sha256:[0-9a-f]{64})`)

// Asked waits until a palyra that makes a call waits for an approval; false
// means that it ended before.
func (c *Child) Asked() (Ask, bool) {
	m := c.Err.Await(askLines, c.Ended)
	if m == nil {
		return Ask{}, false
	}
	return Ask{m[1], m[2]}, true
}

// Decide is the command line of palyra that answers an approval.
func (a Ask) Decide(flags ...string) []string {
	return append([]string{"approvals", "decide", a.ID, "--digest", a.Digest, "-o", "json"}, flags...)
}
