package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// reads learn what the sandbox has to hide.
func reads() map[string]attack {
	return map[string]attack{
		"read":        anyOf(readCanary),
		"list":        anyOf(listDirectory),
		"environ":     environment,
		"variable":    ownVariable,
		"cmdline":     func(args []string) (string, error) { return grep("/proc/1/cmdline", args[0]) },
		"mountinfo":   func(args []string) (string, error) { return grep("/proc/self/mountinfo", args[0]) },
		"proc-entry":  anyOf(procEntry),
		"proc-open":   anyOf(openForWriting),
		"proc-fds":    descriptorsOfInit,
		"proc-memory": memoryOfInit,
		"search-path": searchPath,
	}
}

// canary is the word that files and variables of the tests hold.
const canary = "palyra-canary"

func readCanary(name string) error {
	text, err := os.ReadFile(name)
	if err == nil && !bytes.Contains(text, []byte(canary)) {
		return fmt.Errorf("%s is another file", name)
	}
	return err
}

func listDirectory(name string) error {
	entries, err := os.ReadDir(name)
	if err == nil && len(entries) == 0 {
		return fmt.Errorf("%s is empty", name)
	}
	return err
}

// environment looks for a variable of the daemon in every process it sees.
func environment([]string) (string, error) {
	names, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		if name == fmt.Sprintf("/proc/%d/environ", os.Getpid()) {
			continue
		}
		if text, err := os.ReadFile(name); err == nil && bytes.Contains(text, []byte(canary)) {
			return name, nil
		}
	}
	return "", fmt.Errorf("not in %v", names)
}

func ownVariable(args []string) (string, error) {
	for _, name := range args {
		if value, ok := os.LookupEnv(name); ok {
			return name + "=" + value, nil
		}
	}
	return "", fmt.Errorf("none of %v is set", args)
}

func grep(file, word string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, word) {
			return strings.TrimSpace(line), nil
		}
	}
	return "", fmt.Errorf("%s does not hold %s", file, word)
}

// procEntry wants the kernel's own file, not what masks it.
func procEntry(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is masked", name)
	}
	if name == "/proc/kcore" {
		return nil // its mode keeps it from being read; that it is there is enough
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// openForWriting goes no further: what these files do when written to is
// nothing that a test machine should suffer.
func openForWriting(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// descriptorsOfInit opens what the first process of the sandbox has open.
func descriptorsOfInit([]string) (string, error) {
	entries, err := os.ReadDir("/proc/1/fd")
	if err != nil {
		return "", err
	}
	var failed error
	for _, e := range entries {
		name := "/proc/1/fd/" + e.Name()
		link, err := os.Readlink(name)
		if err != nil || !slices.ContainsFunc([]string{"/memfd:", "/host", "/tmp/palyra"}, func(p string) bool { return strings.HasPrefix(link, p) }) {
			failed = errors.Join(failed, fmt.Errorf("%s is %q: %w", name, link, err))
			continue
		}
		f, err := os.Open(name)
		if err == nil {
			f.Close()
			return name + " is " + link, nil
		}
		failed = errors.Join(failed, err)
	}
	return "", errors.Join(errors.New("nothing of the daemon's"), failed)
}

func memoryOfInit([]string) (string, error) {
	fd, err := unix.Open("/proc/1/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return "opened", unix.Close(fd)
}

// searchPath finds a program by name as a shell would.
func searchPath(args []string) (string, error) {
	found, err := exec.LookPath(args[0])
	if err != nil {
		return "", err
	}
	if !strings.Contains(found, "/node_modules/") {
		return "", fmt.Errorf("%s is %s", args[0], found)
	}
	return found, nil
}
