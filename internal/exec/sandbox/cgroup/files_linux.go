package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The files of a control group are accessed without package os, which would register each of them
// with the runtime's poller.

// readFile returns the content of a small file, "" if it cannot be read.
func readFile(name string) string {
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return ""
	}
	defer unix.Close(fd)
	return readAll(fd)
}

// readAll reads a file from its start, regardless of its current offset.
func readAll(fd int) string {
	var text []byte
	buffer := make([]byte, 4096)
	for {
		n, err := retry(func() (int, error) { return unix.Pread(fd, buffer, int64(len(text))) })
		if err != nil || n == 0 {
			return string(text)
		}
		text = append(text, buffer[:n]...)
	}
}

func writeFile(name, value string) error {
	fd, err := retry(func() (int, error) { return unix.Open(name, unix.O_WRONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	if _, err := retry(func() (int, error) { return unix.Write(fd, []byte(value)) }); err != nil {
		return &os.PathError{Op: "write", Path: name, Err: err}
	}
	return nil
}

// writeIfThere writes a file that does not exist on every kernel.
func writeIfThere(name, value string) error {
	if err := writeFile(name, value); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// number parses a file with one number; it returns 0 for other content.
func number(text string) int64 {
	n, _ := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	return n
}

// keyed parses one value of a file with "key value" lines, 0 for none.
func keyed(text, key string) int64 {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, key+" "); ok {
			return number(value)
		}
	}
	return 0
}

// pids parses a cgroup.procs file. A process of another pid namespace reads as 0 and is skipped.
func pids(text string) []int {
	var list []int
	for line := range strings.Lines(text) {
		if pid, err := strconv.Atoi(strings.TrimSpace(line)); err == nil && pid > 0 {
			list = append(list, pid)
		}
	}
	return list
}
