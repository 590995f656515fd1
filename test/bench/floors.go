//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// eventSize is the size of a typical event of the journal, in bytes.
const eventSize = 600

// growing is a file to which durable appends are made.
type growing struct{ file *os.File }

func (b *bench) newGrowing() (*growing, error) {
	dir, err := b.path("floor")
	if err != nil {
		return nil, err
	}
	f, err := os.Create(filepath.Join(dir, "log"))
	return &growing{f}, err
}

func (g *growing) close() error { return g.file.Close() }

// append makes one durable append.
func (g *growing) append() error {
	var event [eventSize]byte
	if _, err := g.file.Write(event[:]); err != nil {
		return err
	}
	return unix.Fdatasync(int(g.file.Fd()))
}

// rate returns the number of sequential durable appends per second.
func (g *growing) rate(n int) (float64, error) {
	started := time.Now()
	for range n {
		if err := g.append(); err != nil {
			return 0, err
		}
	}
	return perSecond(n, time.Since(started)), nil
}

// rawBubblewrap starts a program in bubblewrap with all namespaces and a minimal root, as from a
// shell.
func rawBubblewrap(bwrap string) error {
	cmd := exec.Command(bwrap, "--unshare-all", "--unshare-user", "--die-with-parent", "--ro-bind", "/usr", "/usr",
		"--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "true")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(text))
	}
	return nil
}
