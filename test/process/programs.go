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

// programsVariable names the directory of the programs that `make build` and `make test-programs`
// linked. If it is not set, as under a plain go test, a package links its own programs.
const programsVariable = "TEST_PALYRA_PROGRAMS"

// WithoutHelper is the name of a palyrad that is built without the sandbox helper.
const WithoutHelper = "palyrad-without-helper"

// Install copies programs of cmd, given by name, into a directory. They are copied rather than
// linked, so that the go command records that a test reads them and repeats the test when they
// change.
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

// folderOf returns the directory of a program below bin. Programs for tests are separate, so that
// `make install` does not install them.
func folderOf(name string) string {
	if name == WithoutHelper {
		return "test"
	}
	return ""
}

// link builds one program in the same way as the Makefile.
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
