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

// Palyrad is a palyrad with its own directories, which can be started, stopped and killed
// repeatedly.
type Palyrad struct {
	T *testing.T
	// Program is the path of palyrad. Wrap precedes it on the command line, and Env is added to its
	// environment.
	Program string
	Wrap    []string
	Env     []string
	// MayEnd is true if palyrad may end by itself before a signal.
	MayEnd bool
	// Dir contains the following paths.
	Dir, State, Policies, Workspace, Config string

	// Child is the last started process, nil before the first start.
	*Child

	// outputs is the output of its processes and of its clients.
	outputs *outputs
	// secrets must not occur in files or output, in addition to its keys.
	secrets []leaks.Key
}

// Secret adds a text that a command displayed once, such as a PIN or the link of a pairing code.
// The test fails if palyrad's files or the noted output contain it.
func (p *Palyrad) Secret(name, text string) {
	p.secrets = append(p.secrets, leaks.Shown(name, text)...)
}

// Keeps adds a value of the vault, or its first bytes. The test fails if palyrad's files or the
// noted output contain it.
func (p *Palyrad) Keeps(name, value string) { p.secrets = append(p.secrets, leaks.Kept(name, value)) }

// Beside also searches for the keys of another gateway. Call it while that gateway has them.
func (p *Palyrad) Beside(other *Palyrad) {
	p.T.Helper()
	p.secrets = append(p.secrets, must.Get(leaks.Gather(other.Dir))(p.T)...)
}

// outputs has the output of processes, by name. It is safe for concurrent use.
type outputs struct {
	mu    sync.Mutex
	texts map[string]*Output
}

func (o *outputs) note(who string, outputs ...*Output) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, output := range outputs {
		o.texts[fmt.Sprintf("what %s wrote (%d)", who, len(o.texts))] = output
	}
}

// Note adds the output of another process to the texts that are searched for keys at the end of the
// test. Output that displays a secret on purpose, such as an API token, must not be noted.
func (p *Palyrad) Note(r Result) {
	p.outputs.note(fmt.Sprint(r.Args), &Output{text: []byte(r.Out)}, &Output{text: []byte(r.Err)})
}

// Watch is Note for a running process.
func (p *Palyrad) Watch(c *Child) { p.outputs.note(fmt.Sprint(c.Cmd.Args[1:]), c.Out, c.Err) }

// NewPalyrad creates the directories below dir. At the end of the test, a running palyrad is ended,
// and its log is printed if the test failed.
func NewPalyrad(t *testing.T, program, dir string) *Palyrad {
	t.Helper()
	p := &Palyrad{
		T: t, Program: program, Dir: dir, State: filepath.Join(dir, "state"), Policies: filepath.Join(dir, "policies"),
		Workspace: filepath.Join(dir, "workspace"), Config: filepath.Join(dir, "palyra.toml"),
		outputs: &outputs{texts: map[string]*Output{}},
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

// noteProcess notes the data of a running palyrad that the kernel shows to other users.
func (p *Palyrad) noteProcess() {
	for _, name := range []string{"environ", "cmdline"} {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.Cmd.Process.Pid, name)); err == nil {
			p.outputs.note("the kernel says of its "+name, &Output{text: text})
		}
	}
}

// keepsItsKeys fails the test if palyrad's files or the noted output contain a private key.
func (p *Palyrad) keepsItsKeys() {
	texts := map[string]string{}
	for who, text := range p.outputs.texts {
		texts[who] = text.String()
	}
	_, found, err := leaks.Look(p.Dir, texts, p.secrets...)
	must.Check(p.T, err)
	for _, l := range found {
		p.T.Errorf("a key was printed: %s", l)
	}
}

// Log returns palyrad's output since its last start.
func (p *Palyrad) Log() *Output { return p.Err }

// Launch starts palyrad and returns immediately.
func (p *Palyrad) Launch() {
	p.T.Helper()
	line := append(append([]string(nil), p.Wrap...), p.Program, "--config", p.Config)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(Environment(p.Dir), p.Env...)
	log := NewOutput()
	p.Child = begin(p.T, cmd, log, log)
	p.outputs.note("palyrad", log)
}

// ReadyLine is the line that palyrad logs once it listens.
var ReadyLine = regexp.MustCompile(`palyrad is ready" api=(\S+) metrics=(\S*)`)

// AwaitReady reports whether palyrad becomes ready; false means that it ended or was not ready
// within must.Patience.
func (p *Palyrad) AwaitReady() bool { return p.Log().Await(ReadyLine, p.Ended) != nil }

// Start starts palyrad and waits until it is ready.
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

// Stop ends palyrad in order, and fails the test if it does not end cleanly.
func (p *Palyrad) Stop() {
	p.T.Helper()
	p.Signal(syscall.SIGTERM)
	if r := p.Wait(p.T); r.Code != 0 {
		p.T.Fatalf("palyrad ended with exit code %d:\n%s", r.Code, p.Log())
	}
}

// Kill sends SIGKILL, which palyrad cannot handle.
func (p *Palyrad) Kill() {
	p.T.Helper()
	p.Signal(syscall.SIGKILL)
	p.Wait(p.T)
}

// Read returns a file of the workspace, or "" if it does not exist.
func (p *Palyrad) Read(name string) string {
	p.T.Helper()
	text, err := os.ReadFile(filepath.Join(p.Workspace, name))
	if err != nil && !os.IsNotExist(err) {
		p.T.Fatal(err)
	}
	return string(text)
}

// Ask identifies an approval and its call.
type Ask struct{ ID, Digest string }

var askLines = regexp.MustCompile(`(?s)waiting for approval (\w{26}) .*--allow once --digest (sha256:[0-9a-f]{64})`)

// Asked waits until a palyra that makes a call waits for an approval; false means that it ended
// first.
func (c *Child) Asked() (Ask, bool) {
	m := c.Err.Await(askLines, c.Ended)
	if m == nil {
		return Ask{}, false
	}
	return Ask{m[1], m[2]}, true
}

// Decide returns the arguments of palyra that answer an approval.
func (a Ask) Decide(flags ...string) []string {
	return append([]string{"approvals", "decide", a.ID, "--digest", a.Digest, "-o", "json"}, flags...)
}
