//go:build linux

package fault

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/internal/identity"
	"palyra/test/process"
)

// unattended lets fs.patch run without approval; fs.write requires one.
const unattended = `@id("unattended")
@reason("fs.patch runs unattended in the tests")
@waives("approval: the workspace is a temporary directory")
permit(principal, action == Action::"tool.execute/fs.patch", resource);
`

// daemon is one palyrad, which may fail at any time.
type daemon struct {
	*process.Palyrad
	// view is the prefix for the state directory's path from this process: a palyrad in a mount
	// namespace sees a different directory.
	view string
}

// prepare creates the directories and the configuration.
func prepare(t *testing.T) *daemon {
	t.Helper()
	d := &daemon{Palyrad: process.NewPalyrad(t, filepath.Join(programs, "palyrad"), filepath.Join(t.TempDir(), "palyra-fault"))}
	d.MayEnd = true
	must.Write(t, filepath.Join(d.Policies, "10.cedar"), unattended)
	var limits strings.Builder
	for _, class := range []string{"read", "mutate", "decide", "tool_call", "run", "secret"} {
		fmt.Fprintf(&limits, "[rate_limits.%s]\nper_second = 10000\nburst = 10000\n", class)
	}
	must.Write(t, d.Config, fmt.Sprintf(`state_dir = %q
vault.backend = "file"
max_calls_per_session = 1000000
[listen]
api = "127.0.0.1:0"
metrics = "127.0.0.1:0"
console = ""
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
%s`, d.State, d.Policies, d.Workspace, limits.String()))
	return d
}

// start prepares a palyrad and starts it.
func start(t *testing.T) *daemon {
	t.Helper()
	d := prepare(t)
	d.Start()
	return d
}

// awaitServing is AwaitReady for a palyrad that may have failed to log the ready line, although
// its API answers.
func (d *daemon) awaitServing() bool {
	d.T.Helper()
	serving := false
	must.Eventually(d.T, "palyrad serves or ends", func() (bool, string) {
		select {
		case <-d.Ended:
			return true, ""
		default:
		}
		serving = process.ReadyLine.MatchString(d.Log().String()) || d.answers()
		return serving, d.Log().String()
	})
	return serving
}

// answers reports whether the API answers the local operator.
func (d *daemon) answers() bool {
	bundle, err := identity.ReadBundle(filepath.Join(d.view, d.State, "operator"))
	if err != nil {
		return false // not written yet
	}
	c := newClient(bundle)
	defer c.transport.CloseIdleConnections()
	_, err = c.status.GetStatus(d.T.Context(), &palyrav1.GetStatusRequest{})
	return err == nil
}

// metrics returns the address of /readyz and /metrics.
func (d *daemon) metrics() string {
	d.T.Helper()
	m := d.Log().Await(process.ReadyLine, d.Ended)
	if m == nil {
		d.T.Fatalf("palyrad is not ready:\n%s", d.Log())
	}
	return m[2]
}

// readyz requests the readiness.
func (d *daemon) readyz() (code int, text string) {
	d.T.Helper()
	return d.get("/readyz")
}

// get requests a page of the metrics listener.
func (d *daemon) get(path string) (code int, text string) {
	d.T.Helper()
	web := http.Client{Timeout: requestPatience}
	res := must.Get(web.Get("http://" + d.metrics() + path))(d.T)
	body, err := io.ReadAll(res.Body)
	must.Do(d.T, errors.Join(err, res.Body.Close()))
	return res.StatusCode, string(body)
}

// refused runs palyrad, which must exit with the code and print all texts of says and a next
// step.
func (d *daemon) refused(code int, says ...string) string {
	d.T.Helper()
	d.Launch()
	if d.AwaitReady() {
		d.T.Fatalf("palyrad started:\n%s", d.Log())
	}
	if got := d.Wait(d.T).Code; got != code {
		d.T.Errorf("exit code %d, want %d:\n%s", got, code, d.Log())
	}
	text := d.Log().String()
	for _, part := range append(says, "\nnext: ") {
		if !strings.Contains(text, part) {
			d.T.Errorf("palyrad does not say %q:\n%s", part, text)
		}
	}
	return text
}

// cli runs palyra with its own home directory and waits until it exits.
func (d *daemon) cli(args ...string) (code int, out, msg string) {
	d.T.Helper()
	return d.program("palyra", args...)
}

// program is cli for either program.
func (d *daemon) program(name string, args ...string) (code int, out, msg string) {
	d.T.Helper()
	r := d.wrapped(nil, name, args...)
	return r.Code, r.Out, r.Err
}

// wrapped is program with a command prefix.
func (d *daemon) wrapped(wrap []string, name string, args ...string) process.Result {
	d.T.Helper()
	ctx, cancel := context.WithTimeout(d.T.Context(), callPatience)
	defer cancel()
	line := slices.Concat(wrap, []string{filepath.Join(programs, name)}, args)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Env = append(process.Environment(d.Dir), "PALYRA_CONFIG="+d.Config, "PALYRA_STATE_DIR="+filepath.Join(d.view, d.State))
	return process.Finish(d.T, cmd)
}
