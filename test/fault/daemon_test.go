//go:build linux

package fault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/identity"
	"palyra/test/process"
)

// unattended lets fs.patch run without a human; fs.write asks one.
const unattended = `@id("unattended")
@reason("fs.patch runs unattended in the tests")
@waives("approval: the workspace is a temporary directory")
permit(principal, action == Action::"tool.execute/fs.patch", resource);
`

// daemon is one palyrad with directories of its own, which may be started,
// stopped and killed any number of times.
type daemon struct {
	t         *testing.T
	dir       string
	state     string
	workspace string
	config    string
	// wrap comes before palyrad on its command line.
	wrap []string
	// view is what the state directory's path has to be put behind to reach it
	// from here: a palyrad in a mount namespace sees another one.
	view string

	cmd   *exec.Cmd
	log   *process.Output
	ended chan struct{}
}

// prepare makes the directories and the configuration.
func prepare(t *testing.T) *daemon {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "palyra-fault")
	d := &daemon{
		t: t, dir: dir, state: filepath.Join(dir, "state"), workspace: filepath.Join(dir, "workspace"), config: filepath.Join(dir, "palyra.toml"),
	}
	policies := filepath.Join(dir, "policies")
	for _, sub := range []string{policies, d.workspace} {
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(policies, "10.cedar"), unattended)
	var limits strings.Builder
	for _, class := range []string{"read", "mutate", "decide", "tool_call"} {
		fmt.Fprintf(&limits, "[rate_limits.%s]\nper_second = 10000\nburst = 10000\n", class)
	}
	write(t, d.config, fmt.Sprintf(`state_dir = %q
max_calls_per_session = 1000000
[listen]
api = "127.0.0.1:0"
metrics = "127.0.0.1:0"
[approvals]
default_timeout = "24h"
max_created_per_minute_per_principal = 10000
[policy]
dir = %q
[process_runner]
enabled = false
[[workspaces]]
name = "default"
path = %q
%s`, d.state, policies, d.workspace, limits.String()))
	t.Cleanup(d.cleanUp)
	return d
}

// start is prepare and a palyrad that is ready.
func start(t *testing.T) *daemon {
	t.Helper()
	d := prepare(t)
	d.start()
	return d
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// ready matches the line that palyrad logs once it listens.
var ready = regexp.MustCompile(`palyrad is ready" api=(\S+) metrics=(\S+)`)

// start runs palyrad and waits until it is ready.
func (d *daemon) start() {
	d.t.Helper()
	d.launch()
	if !d.awaitReady() {
		d.t.Fatalf("palyrad did not get ready:\n%s", d.log)
	}
}

// launch runs palyrad without waiting for anything.
func (d *daemon) launch() {
	d.t.Helper()
	line := append(append([]string(nil), d.wrap...), filepath.Join(programs, "palyrad"), "--config", d.config)
	d.cmd = exec.Command(line[0], line[1:]...)
	d.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "LANG=C.UTF-8"}
	d.log, d.ended = process.NewOutput(), make(chan struct{})
	d.cmd.Stdout, d.cmd.Stderr = d.log, d.log
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	go func(cmd *exec.Cmd, ended chan struct{}) {
		_ = cmd.Wait()
		close(ended)
	}(d.cmd, d.ended)
}

// awaitReady reports whether palyrad got ready; false means that it ended.
func (d *daemon) awaitReady() bool { return d.log.Await(ready, d.ended) != nil }

// awaitServing is awaitReady for a palyrad that may have failed to write the
// line in its log that says so: its API answers all the same.
func (d *daemon) awaitServing() bool {
	d.t.Helper()
	serving := false
	process.Eventually(d.t, "palyrad serves or ends", process.Patience, func() (bool, string) {
		select {
		case <-d.ended:
			return true, ""
		default:
		}
		serving = ready.MatchString(d.log.String()) || d.answers()
		return serving, d.log.String()
	})
	return serving
}

// answers reports whether the API answers the local operator.
func (d *daemon) answers() bool {
	bundle, err := identity.ReadBundle(filepath.Join(d.view, d.state, "operator"))
	if err != nil {
		return false // it is not written yet
	}
	c := newClient(bundle)
	defer c.transport.CloseIdleConnections()
	_, err = c.status.GetStatus(d.t.Context(), &palyrav1.GetStatusRequest{})
	return err == nil
}

// metrics is the address of /readyz and /metrics.
func (d *daemon) metrics() string {
	d.t.Helper()
	m := d.log.Await(ready, d.ended)
	if m == nil {
		d.t.Fatalf("palyrad is not ready:\n%s", d.log)
	}
	return m[2]
}

// readyz asks for the readiness.
func (d *daemon) readyz() (code int, text string) {
	d.t.Helper()
	return d.get("/readyz")
}

// get asks for a page beside the metrics.
func (d *daemon) get(path string) (code int, text string) {
	d.t.Helper()
	web := http.Client{Timeout: requestPatience}
	res, err := web.Get("http://" + d.metrics() + path)
	if err != nil {
		d.t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err := errors.Join(err, res.Body.Close()); err != nil {
		d.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// stop ends palyrad in order and fails when that is no clean end.
func (d *daemon) stop() {
	d.t.Helper()
	d.signal(syscall.SIGTERM)
	if code := d.awaitEnd(); code != 0 {
		d.t.Fatalf("palyrad ended with exit code %d:\n%s", code, d.log)
	}
}

// kill is SIGKILL: palyrad gets no chance to do anything.
func (d *daemon) kill() {
	d.t.Helper()
	d.signal(syscall.SIGKILL)
	d.awaitEnd()
}

func (d *daemon) signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		d.t.Fatal(err)
	}
}

// awaitEnd returns the exit code of a palyrad that is about to end.
func (d *daemon) awaitEnd() int {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(process.Patience):
		d.t.Fatalf("palyrad (process %d) did not end:\n%s", d.cmd.Process.Pid, d.log)
	}
	return d.cmd.ProcessState.ExitCode()
}

// refused runs palyrad, which must end by itself with the exit code and say
// all of says, with a next step.
func (d *daemon) refused(code int, says ...string) string {
	d.t.Helper()
	d.launch()
	if d.awaitReady() {
		d.t.Fatalf("palyrad started:\n%s", d.log)
	}
	if got := d.awaitEnd(); got != code {
		d.t.Errorf("exit code %d, want %d:\n%s", got, code, d.log)
	}
	text := d.log.String()
	for _, part := range append(says, "\nnext: ") {
		if !strings.Contains(text, part) {
			d.t.Errorf("palyrad does not say %q:\n%s", part, text)
		}
	}
	return text
}

// cleanUp ends a palyrad that still runs and shows its log when the test
// failed.
func (d *daemon) cleanUp() {
	if d.cmd == nil || d.cmd.Process == nil {
		return
	}
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-d.ended:
	case <-time.After(process.Patience):
		_ = d.cmd.Process.Kill()
		<-d.ended
		d.t.Errorf("palyrad (process %d) had to be killed", d.cmd.Process.Pid)
	}
	if d.t.Failed() {
		d.t.Logf("palyrad's log:\n%s", d.log)
	}
}

// cli runs palyra to its end, with a memory of its own.
func (d *daemon) cli(args ...string) (code int, out, msg string) {
	d.t.Helper()
	return d.program("palyra", args...)
}

// program is cli for either program.
func (d *daemon) program(name string, args ...string) (code int, out, msg string) {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), callPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + d.dir, "LANG=C.UTF-8", "PALYRA_CONFIG=" + d.config, "PALYRA_STATE_DIR=" + filepath.Join(d.view, d.state),
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		d.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}
