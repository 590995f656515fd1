package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/test/attack/attempt"
)

// descriptors are attacks by the descriptors that a process has or receives.
func descriptors() map[string]attack {
	return map[string]attack{
		"stray":          stray,
		"unix-connect":   anyOf(unixConnect),
		"abstract":       func(names []string) (string, error) { return "", unixConnect("@" + names[0]) },
		"unix-datagram":  datagramPair,
		"receive-rights": receiveRights,
	}
}

// stray reads the canary from every descriptor beyond the standard three.
func stray([]string) (string, error) {
	var failed error
	text := make([]byte, 64)
	for fd := 3; fd < 4096; fd++ {
		n, err := unix.Pread(fd, text, 0)
		if err == nil && bytes.Contains(text[:n], []byte(canary)) {
			return fmt.Sprint("descriptor ", fd), nil
		}
		if err != nil && !errors.Is(err, unix.EBADF) {
			failed = errors.Join(failed, fmt.Errorf("descriptor %d: %w", fd, err))
		}
	}
	return "", errors.Join(errors.New("no descriptor holds the canary"), failed)
}

// unixConnect connects to a long path through its directory, because an address has at most 107
// bytes.
func unixConnect(name string) error {
	address := name
	if filepath.IsAbs(name) {
		dir, err := unix.Open(filepath.Dir(name), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		address = fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(name))
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: address}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// datagramPair connects one end of a pair to another address.
func datagramPair(names []string) (string, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	return "", unix.Connect(pair[0], &unix.SockaddrUnix{Name: "@" + names[0]})
}

// receiveRights requests a descriptor from a server outside (SCM_RIGHTS).
func receiveRights(names []string) (string, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: names[0]}); err != nil {
		return "", err
	}
	space := make([]byte, unix.CmsgSpace(4))
	if _, _, _, _, err := unix.Recvmsg(fd, make([]byte, 1), space, 0); err != nil {
		return "", err
	}
	messages, err := unix.ParseSocketControlMessage(space)
	if err != nil || len(messages) == 0 {
		return "", errors.Join(errors.New("no descriptor came"), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return "", err
	}
	text := make([]byte, 64)
	n, err := unix.Pread(fds[0], text, 0)
	if err != nil || !bytes.Contains(text[:n], []byte(canary)) {
		return "", errors.Join(errors.New("another file came"), err)
	}
	return "the canary was read", nil
}

// terminals are attacks that inject input into a terminal.
func terminals() map[string]attack {
	return map[string]attack{
		"tiocsti":        func([]string) (string, error) { return ioctl(unix.TIOCSTI) },
		"tiocsti-high":   func([]string) (string, error) { return ioctl(unix.TIOCSTI | 1<<32) },
		"tioclinux":      func([]string) (string, error) { return ioctl(unix.TIOCLINUX) },
		"tioclinux-high": func([]string) (string, error) { return ioctl(unix.TIOCLINUX | 1<<32) },
		"tiocsctty":      func([]string) (string, error) { return ioctl(unix.TIOCSCTTY) },
		"terminal":       anyOf(openTerminal),
		"take-terminal":  anyOf(takeTerminal),
	}
}

// ioctl sends a request to a pipe, which Landlock does not restrict. If the request reaches the
// kernel, it returns ENOTTY.
func ioctl(request uintptr) (string, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return "", err
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(p[0]), request, addressOf(make([]byte, 8)))
	return attempt.Reached(errno, unix.ENOTTY)
}

func openTerminal(name string) error {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// takeTerminal makes this process group the foreground group of the terminal.
func takeTerminal(name string) error {
	signal.Ignore(syscall.SIGTTOU) // or the kernel would stop a background process
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// The parent's group may be in another process namespace.
	_ = unix.Setpgid(0, 0)
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSPGRP, unix.Getpgrp())
}
