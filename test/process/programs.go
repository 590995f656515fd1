package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// programsVariable names the directory of the programs that `make build` and
// `make test-programs` linked. Where it is not set, as under a plain go test, a package
// links what it needs.
const programsVariable = "TEST_PALYRA_PROGRAMS"

// WithoutHelper is the name of a palyrad that was built without the sandbox helper in it.
const WithoutHelper = "palyrad-without-helper"

// Install copies programs of cmd, by their names, into a directory of the caller's. They
// are copied and not linked, so that the go command sees that a test reads them, and runs
// it again when they differ.
func Install(dir string, names ...string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // programs of other users run them
		return err
	}
	linked := os.Getenv(programsVariable)
	for _, name := range names {
		to := filepath.Join(dir, name)
		err := link(name, to)
		if linked != "" {
			err = install(filepath.Join(linked, folderOf(name), name), to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// folderOf is where a program lies below bin: those that only tests run are apart, so that
// `make install` does not find them.
func folderOf(name string) string {
	if name == WithoutHelper {
		return "test"
	}
	return ""
}

// link builds one program as the Makefile does.
func link(name, to string) error {
	folder, tags, cgo := "palyra/cmd/"+name, "palyrainit", "0"
	switch name {
	case WithoutHelper:
		folder, tags = "palyra/cmd/palyrad", ""
	case "palyra-wasm":
		cgo = "1"
	}
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", tags, "-o", to, folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED="+cgo)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", name, err, text)
	}
	return nil
}

func install(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("%w; `make test-programs` builds it", err)
	}
	defer in.Close()
	// A child forked during the copy inherits the open file until its own exec. The copy
	// cannot be executed while it is open for writing (ETXTBSY, execve(2)).
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755) //nolint:gosec // a program
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, in)
	return err
}
