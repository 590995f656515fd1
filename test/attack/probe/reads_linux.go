package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// reads are attacks that read information that the sandbox must hide.
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
		"proc-fds":    descriptorsOfOthers,
		"proc-memory": memoryOfInit,
		"search-path": searchPath,
	}
}

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

// environment searches the environment of every visible process for a variable of the daemon.
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

// procEntry opens the kernel's own file rather than the file that masks it.
func procEntry(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is masked", name)
	}
	if name == "/proc/kcore" {
		return nil // its mode forbids reading; its existence is enough
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return f.Close()
}

// openForWriting only opens the file, because a write could harm the test machine.
func openForWriting(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// descriptorsOfOthers reads the canary from the open files of other processes.
func descriptorsOfOthers([]string) (string, error) {
	names, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return "", err
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err == nil && info.Mode().IsRegular() && readCanary(name) == nil {
			return name, nil
		}
	}
	return "", fmt.Errorf("none of %v holds the canary", names)
}

func memoryOfInit([]string) (string, error) {
	fd, err := unix.Open("/proc/1/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return "opened", unix.Close(fd)
}

// searchPath finds a program by name, as a shell does.
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
