//go:build linux

package main

import (
	"bufio"
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
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"palyra/internal/identity"
)

// patience is the timeout of every wait for a daemon.
const patience = 60 * time.Second

// gateway is a palyrad in a separate process, with its own directories.
type gateway struct {
	program string
	dir     string

	cmd *exec.Cmd
	log *tail
	// ended is closed when the process has ended.
	ended chan struct{}
	// metrics is the address of the metrics listener.
	metrics string
}

// settings raise the rate limits, so that a benchmark can call without pauses; all other settings
// have their defaults.
const settings = `state_dir = %q
vault.backend = "file"
max_calls_per_run = 1000000
max_calls_per_session = 1000000
%s
[listen]
api = "127.0.0.1:0"
metrics = "127.0.0.1:0"
console = ""
[policy]
dir = %q
[[workspaces]]
name = "default"
path = %q
[approvals]
default_timeout = "1h"
max_pending_per_principal = 1000
max_created_per_minute_per_principal = 10000
[rate_limits.read]
per_second = 100000
burst = 100000
[rate_limits.mutate]
per_second = 100000
burst = 100000
[rate_limits.decide]
per_second = 100000
burst = 100000
[rate_limits.tool_call]
per_second = 100000
burst = 100000
[rate_limits.run]
per_second = 100000
burst = 100000
%s
`

// unasked disables approvals, so that calls run as fast as possible.
const unasked = "allow_sensitive_tools = true"

// newGateway creates the directories and the configuration of a daemon. top are settings outside
// any table, tables the rest.
func (b *bench) newGateway(top, tables string) (*gateway, error) {
	g, err := b.emptyGateway()
	if err != nil {
		return nil, err
	}
	text := fmt.Sprintf(settings, g.state(), top, g.policies(), g.workspace(), tables)
	return g, os.WriteFile(g.config(), []byte(text), 0o600)
}

// emptyGateway creates the directories of a daemon.
func (b *bench) emptyGateway() (*gateway, error) {
	if _, err := os.Stat(b.palyrad); err != nil {
		return nil, fmt.Errorf("palyrad was not found (%w); run `make build`", err)
	}
	dir, err := b.path("gateway")
	if err != nil {
		return nil, err
	}
	g := &gateway{program: b.palyrad, dir: dir}
	for _, d := range []string{g.policies(), g.workspace()} {
		if err := os.Mkdir(d, 0o750); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *gateway) state() string     { return filepath.Join(g.dir, "state") }
func (g *gateway) policies() string  { return filepath.Join(g.dir, "policies") }
func (g *gateway) workspace() string { return filepath.Join(g.dir, "workspace") }
func (g *gateway) config() string    { return filepath.Join(g.dir, "palyra.toml") }

// environment returns an environment without the settings of the user.
func (g *gateway) environment() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + g.dir, "LANG=C.UTF-8"}
}

var readyLine = regexp.MustCompile(`palyrad is ready.* metrics=(\S+)`)

// start starts palyrad and returns the time until it was ready.
func (g *gateway) start() (time.Duration, error) {
	cmd := exec.Command(g.program, "--config", g.config())
	cmd.Env = g.environment()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return 0, err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	g.cmd, g.log, g.ended = cmd, &tail{}, make(chan struct{})
	ready := make(chan string, 1)
	go func(log *tail, ended chan struct{}) {
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			log.add(lines.Text())
			if m := readyLine.FindStringSubmatch(lines.Text()); m != nil {
				ready <- m[1]
			}
		}
		_ = cmd.Wait()
		close(ended)
	}(g.log, g.ended)
	select {
	case g.metrics = <-ready:
		return time.Since(started), nil
	case <-g.ended:
	case <-time.After(patience):
	}
	return 0, errors.Join(fmt.Errorf("palyrad did not get ready:\n%s", g.log), g.stop())
}

// stop stops palyrad in order, and kills it if it does not end.
func (g *gateway) stop() error {
	if g.cmd == nil {
		return nil
	}
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
	case <-time.After(patience):
		_ = g.cmd.Process.Kill()
		<-g.ended
		return fmt.Errorf("palyrad had to be killed:\n%s", g.log)
	}
	code := g.cmd.ProcessState.ExitCode()
	g.cmd = nil
	if code != 0 {
		return fmt.Errorf("palyrad ended with exit code %d:\n%s", code, g.log)
	}
	return nil
}

// running creates and starts a daemon, and returns the local operator's client.
func (b *bench) running(top, tables string) (*gateway, *client, error) {
	g, err := b.newGateway(top, tables)
	if err != nil {
		return nil, nil, err
	}
	if _, err := g.start(); err != nil {
		return nil, nil, err
	}
	c, err := g.operator()
	if err != nil {
		return nil, nil, errors.Join(err, g.stop())
	}
	return g, c, nil
}

// operator returns the local operator's client.
func (g *gateway) operator() (*client, error) {
	b, err := identity.ReadBundle(g.bundle())
	if err != nil {
		return nil, err
	}
	return newClient(b, b.Address), nil
}

func (g *gateway) bundle() string { return filepath.Join(g.state(), "operator") }

// member adds a member and returns its client. The daemon must run.
func (g *gateway) member(name string) (*client, error) { return g.add(name, "--role", "operator") }

// add adds a member with flags of `palyrad operator add`.
func (g *gateway) add(name string, flags ...string) (*client, error) {
	local, err := identity.ReadBundle(g.bundle())
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(g.dir, name)
	cmd := exec.Command(g.program, append([]string{"--config", g.config(), "operator", "add", name, "--yes", "--out", dir}, flags...)...)
	cmd.Env = g.environment()
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("adding %s: %w: %s", name, err, bytes.TrimSpace(text))
	}
	b, err := identity.ReadBundle(dir)
	if err != nil {
		return nil, err
	}
	return newClient(b, local.Address), nil
}

// resident returns the resident memory of the daemon in bytes.
func (g *gateway) resident() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", g.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for l := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(l, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			return kib * 1024, err
		}
	}
	return 0, errors.New("the kernel does not report palyrad's memory")
}

// heap returns the allocated heap of the daemon in bytes, including garbage.
func (g *gateway) heap(ctx context.Context) (float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.metrics+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, err
	}
	m := regexp.MustCompile(`(?m)^go_memstats_heap_alloc_bytes (\S+)$`).FindSubmatch(text)
	if m == nil {
		return 0, errors.New("the metrics do not report the size of the heap")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}

// tail keeps the last lines of a log.
type tail struct {
	mu    sync.Mutex
	lines []string
}

func (t *tail) add(l string) {
	const most = 30
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, l)
	t.lines = t.lines[max(len(t.lines)-most, 0):]
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
