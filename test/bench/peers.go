//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"palyra/internal/exec/sandbox"
)

// The npm packages of two sandboxes of well-known coding agents.
const (
	runtimePackage = "@anthropic-ai/sandbox-runtime"
	codexPackage   = "@openai/codex"
)

// installTimeout is the timeout of npm; one of the packages has 400 MB.
const installTimeout = 5 * time.Minute

// install installs a package into its own directory. It returns the directory of its modules, and
// the version of the package.
func (b *bench) install(ctx context.Context, name string) (modules, version string, err error) {
	if b.quick {
		return "", "", errors.New("-quick installs nothing")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return "", "", fmt.Errorf("npm, which installs %s, is missing; run `make deps-bench`", name)
	}
	dir, err := b.path("npm")
	if err != nil {
		return "", "", err
	}
	b.say("installing %s into a temporary directory", name)
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", name)
	cmd.Dir = dir
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("npm cannot install %s: %w: %s", name, err, bytes.TrimSpace(text))
	}
	modules = filepath.Join(dir, "node_modules")
	text, err := os.ReadFile(filepath.Join(modules, name, "package.json"))
	if err != nil {
		return "", "", err
	}
	var about struct {
		Version string `json:"version"`
	}
	return modules, about.Version, json.Unmarshal(text, &about)
}

// peer runs /bin/true in another sandbox and returns the time in microseconds, as measured by the
// peer.
type peer interface {
	once() (float64, error)
	close() error
}

// against measures goal 6 for one peer: 1/5 of its time cold, 1/15 prepared.
func (b *bench) against(ctx context.Context, p peer, name, note string) (_ []*line, err error) {
	defer func() { err = errors.Join(err, p.close()) }()
	fresh, err := b.tierC(ctx, sandbox.CopyOnWrite, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fresh.runner.Close()) }()
	ready, err := b.tierC(ctx, sandbox.CopyOnWrite, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, ready.runner.Close()) }()
	if _, err := p.once(); err != nil {
		return nil, fmt.Errorf("%s does not run here: %w", name, err)
	}
	cold := &line{goal: "6", what: "sandbox alone, Tier C cold, p50", floorName: name + " p50", unit: "us", limit: atMost(1.0 / 5), note: note}
	warm := &line{goal: "6", what: "sandbox alone, Tier C prepared, p50", floorName: name + " p50", unit: "us", limit: atMost(1.0 / 15)}
	return []*line{cold, warm}, b.each(ctx, func() error {
		var theirs, colds, warms []float64
		for range b.size.peers {
			took, err := p.once()
			if err != nil {
				return err
			}
			theirs = append(theirs, took)
			ours, err := inTurns(1, b.size.refill, func() error { return fresh.once(ctx) }, func() error { return ready.once(ctx) })
			if err != nil {
				return err
			}
			colds, warms = append(colds, ours[0]), append(warms, ours[1])
		}
		cold.add(median(theirs), median(colds))
		warm.add(median(theirs), median(warms))
		return nil
	})
}

// againstRuntime is goal 6 for sandbox-runtime, used as a library by a node process that runs for
// the whole measurement, as in an agent.
func againstRuntime(ctx context.Context, b *bench) ([]*line, error) {
	modules, version, err := b.install(ctx, runtimePackage)
	if err != nil {
		return nil, err
	}
	for _, program := range []string{"node", "socat", "rg"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("%s needs %s, which is not installed; run `make deps-bench`", runtimePackage, program)
		}
	}
	p, err := b.newRuntimePeer(ctx, modules)
	if err != nil {
		return nil, err
	}
	return b.against(ctx, p, "sandbox-runtime "+version, runtimePackage+" "+version+" as a library, its time without node's start")
}

// runtimeProgram answers each line with the time of one command in microseconds, or with an error.
const runtimeProgram = `import { SandboxManager } from %q
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
await SandboxManager.initialize({
  network: { allowedDomains: [], deniedDomains: [] },
  filesystem: { denyRead: [], allowWrite: ['.'], denyWrite: [] },
})
for await (const _ of createInterface({ input: process.stdin })) {
  try {
    const started = process.hrtime.bigint()
    const command = await SandboxManager.wrapWithSandbox('/bin/true')
    const code = await new Promise((done, failed) => {
      const child = spawn(command, { shell: true, stdio: 'ignore' })
      child.on('error', failed)
      child.on('exit', done)
    })
    const took = Number(process.hrtime.bigint() - started) / 1e3
    SandboxManager.cleanupAfterCommand()
    console.log(JSON.stringify(code === 0 ? { took } : { error: 'exit code ' + code }))
  } catch (e) {
    console.log(JSON.stringify({ error: String(e) }))
  }
}
await SandboxManager.reset()
`

// runtimePeer is the node process.
type runtimePeer struct {
	cmd     *exec.Cmd
	asks    io.WriteCloser
	answers *bufio.Reader
	said    *bytes.Buffer
}

func (b *bench) newRuntimePeer(ctx context.Context, modules string) (*runtimePeer, error) {
	dir, err := b.path("peer")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "peer.mjs")
	text := fmt.Sprintf(runtimeProgram, filepath.Join(modules, runtimePackage, "dist", "index.js"))
	if err := os.WriteFile(program, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p := &runtimePeer{cmd: exec.CommandContext(ctx, "node", program), said: &bytes.Buffer{}}
	p.cmd.Dir, p.cmd.Stderr = dir, p.said
	if p.asks, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	answers, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = bufio.NewReader(answers)
	return p, p.cmd.Start()
}

func (p *runtimePeer) once() (float64, error) {
	_, err := io.WriteString(p.asks, "go\n")
	if err != nil {
		return 0, err
	}
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return 0, fmt.Errorf("the node process ended: %w", errors.Join(err, p.close(), errors.New(strings.TrimSpace(p.said.String()))))
	}
	var answer struct {
		Took  float64 `json:"took"`
		Error string  `json:"error"`
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return 0, err
	}
	if answer.Error != "" {
		return 0, errors.New(answer.Error)
	}
	return answer.Took, nil
}

// close ends the process.
func (p *runtimePeer) close() error {
	p.asks.Close()
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Wait()
	}
	return nil
}

// againstCodex is goal 6 for the sandbox command of codex: its native program, without the node
// script that wraps it.
func againstCodex(ctx context.Context, b *bench) ([]*line, error) {
	modules, version, err := b.install(ctx, codexPackage)
	if err != nil {
		return nil, err
	}
	programs, err := filepath.Glob(filepath.Join(modules, codexPackage+"-*", "vendor", "*", "bin", "codex"))
	if err != nil || len(programs) != 1 {
		return nil, fmt.Errorf("%s %s has no native program where it was: %v", codexPackage, version, programs)
	}
	home, err := b.path("codex")
	if err != nil {
		return nil, err
	}
	p := codexPeer{programs[0], home}
	return b.against(ctx, p, "codex sandbox "+version, codexPackage+" "+version+", its native program's command `sandbox`")
}

// codexPeer is the program with its own home directory.
type codexPeer struct{ program, home string }

func (p codexPeer) once() (float64, error) {
	cmd := exec.Command(p.program, "sandbox", "--", "/bin/true")
	cmd.Dir = p.home
	cmd.Env = append(os.Environ(), "CODEX_HOME="+p.home)
	started := time.Now()
	if text, err := cmd.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("%w: %s", err, bytes.TrimSpace(text))
	}
	return micros(time.Since(started)), nil
}

func (codexPeer) close() error { return nil }
