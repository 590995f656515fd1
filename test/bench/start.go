//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// helloSource is a minimal Go program.
const helloSource = `package main

import "os"

func main() { os.Stdout.WriteString("hello\n") }
`

// hello builds that program with the same flags as palyrad.
func (b *bench) hello() (string, error) {
	dir, err := b.path("hello")
	if err != nil {
		return "", err
	}
	source, program := filepath.Join(dir, "hello.go"), filepath.Join(dir, "hello")
	if err := os.WriteFile(source, []byte(helloSource), 0o600); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, source)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return program, run(cmd)
}

// run runs a program to its end; its output is part of the error.
func run(cmd *exec.Cmd) error {
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Path, err, bytes.TrimSpace(text))
	}
	return nil
}

// programStart measures the start time of programs that do almost nothing else.
func programStart(ctx context.Context, b *bench) (lines []*line, err error) {
	g, _, err := b.running("", "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	hello, err := b.hello()
	if err != nil {
		return nil, err
	}
	palyra := filepath.Join(filepath.Dir(b.palyrad), "palyra")
	starts := []*line{
		{what: "palyrad version", limit: atMost(6)}, {what: "palyra version", limit: atMost(4)}, {what: "palyra status", limit: atMost(8)},
	}
	start := func(program string, args ...string) func() error {
		return func() error {
			cmd := exec.CommandContext(ctx, program, args...)
			cmd.Env = g.environment()
			return run(cmd)
		}
	}
	for _, l := range starts {
		l.goal, l.floorName, l.unit = "19", "a static hello in Go", "us"
	}
	err = b.each(ctx, func() error {
		took, err := inTurns(b.size.sandboxes, 0, start(hello), start(b.palyrad, "version"), start(palyra, "version"),
			start(palyra, "--config", g.config(), "status"))
		if err != nil {
			return err
		}
		for i, l := range starts {
			l.add(took[0], took[i+1])
		}
		return nil
	})
	return starts, err
}

// The largest sizes of programs for linux/amd64, in bytes: of palyrad and palyra, and of palyra with
// its WASM worker under xz. RATIONALE.md says how far the bound of palyrad may grow.
const (
	maxPalyrad  = 45_000_000
	maxPalyra   = 28_000_000
	maxClientXZ = 30_000_000
)

// programSizes measures the programs in the directory of palyrad, installed and under xz.
func programSizes(ctx context.Context, b *bench) ([]*line, error) {
	var lines []*line
	add := func(what string, bytes, most int64) {
		l := &line{goal: "19", what: "size of " + what, unit: "bytes"}
		if most > 0 {
			l.limit = atMost(float64(most))
		}
		l.add(0, float64(bytes))
		lines = append(lines, l)
	}
	most, client := map[string]int64{"palyrad": maxPalyrad, "palyra": maxPalyra}, int64(0)
	for _, name := range []string{"palyrad", "palyra", "palyra-wasm", "palyra-hook"} {
		program := b.palyrad
		if name != "palyrad" {
			program = filepath.Join(filepath.Dir(b.palyrad), name)
		}
		info, err := os.Stat(program)
		if err != nil {
			return nil, err
		}
		add(name, info.Size(), most[name])
		if b.quick { // compressing takes half a minute
			continue
		}
		packed, err := compressed(ctx, program)
		if err != nil {
			return nil, err
		}
		add(name+" under xz", packed, 0)
		if name == "palyra" || name == "palyra-wasm" {
			client += packed
		}
	}
	if !b.quick {
		add("palyra and palyra-wasm under xz", client, maxClientXZ)
	}
	return lines, nil
}

// compressed returns the size of a file under xz.
func compressed(ctx context.Context, file string) (int64, error) {
	var problem bytes.Buffer
	var size counter
	cmd := exec.CommandContext(ctx, "xz", "-9", "--stdout", file)
	cmd.Stdout, cmd.Stderr = &size, &problem
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("compressing %s: %w: %s", file, err, bytes.TrimSpace(problem.Bytes()))
	}
	return int64(size), nil
}

// counter counts the bytes that are written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}
