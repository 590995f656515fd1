package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// notStarted names the missing file if execve(2) reports ENOENT for an existing program: the
// interpreter of a script, or the loader of a program.
func notStarted(path string, err error) error {
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	head, _ := beginning(path)
	switch line, script := bytes.CutPrefix(head, []byte("#!")); {
	case script:
		line, _, _ = bytes.Cut(line, []byte("\n"))
		name, _, _ := strings.Cut(strings.Trim(string(line), " \t"), " ")
		if strings.HasSuffix(name, "\r") {
			return fmt.Errorf("interpreter %q does not exist: the script has the line ends of Windows: %w", name, err)
		}
		return fmt.Errorf("interpreter %s does not exist: %w", name, err)
	case bytes.HasPrefix(head, []byte("\x7fELF")):
		return fmt.Errorf("the loader that it names does not exist: it was built for another system: %w", err)
	}
	return err
}

// beginning returns the part of a file that the kernel inspects.
func beginning(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, 256))
}
