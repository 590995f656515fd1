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

// programStart measures the start time of programs that do almost nothing else, and their size.
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
	if err != nil {
		return nil, err
	}
	daemon := &line{goal: "19", what: "size of palyrad", unit: "MB", limit: atMost(55)}
	client := &line{goal: "19", what: "size of palyra", unit: "MB"}
	return append(starts, daemon, client), errors.Join(daemon.addSize(b.palyrad), client.addSize(palyra))
}

// addSize adds the size of a file, in millions of bytes.
func (l *line) addSize(file string) error {
	info, err := os.Stat(file)
	if err == nil {
		l.add(0, float64(info.Size())/1e6)
	}
	return err
}
