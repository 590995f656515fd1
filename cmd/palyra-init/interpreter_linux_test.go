package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"palyra/internal/core/must"
)

// TestNotStarted: the error for a program whose interpreter or loader is missing differs from
// the error for a program that is missing itself. Control: the kernel's own error.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"script":           {"#!/x/y\n", "interpreter /x/y does not exist"},
		"with an argument": {"#! /x/y -w\nx", "interpreter /x/y does not exist"},
		"without a line":   {"#!/x/y", "interpreter /x/y does not exist"},
		"of Windows":       {"#!/bin/sh\r\ntrue\r\n", "line ends of Windows"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o700); err != nil { // #nosec G306 -- it is to be started
			t.Fatal(err)
		}
		err := exec.Command(path).Run()
		if !errors.Is(err, unix.ENOENT) {
			t.Fatalf("%s: the kernel says %v", name, err)
		}
		if err := notStarted(path, unix.ENOENT); !strings.Contains(err.Error(), c.want) || !errors.Is(err, unix.ENOENT) {
			t.Errorf("%s: %v", name, err)
		}
	}
	elf := filepath.Join(dir, "elf")
	must.Do(t, os.WriteFile(elf, []byte("\x7fELF"), 0o600))
	if err := notStarted(elf, unix.ENOENT); !strings.Contains(err.Error(), "built for another system") {
		t.Error(err)
	}
	for path, err := range map[string]error{filepath.Join(dir, "absent"): unix.ENOENT, elf: unix.EACCES} {
		if got := notStarted(path, err); got.Error() != err.Error() {
			t.Errorf("%s: %v", path, got)
		}
	}
}
