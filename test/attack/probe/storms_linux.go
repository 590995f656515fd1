package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// storms are attacks with many processes and much processor time.
func storms() map[string]attack {
	return map[string]attack{
		"fork":   func(args []string) (string, error) { return bomb(args, forkSleeper) },
		"zombie": func(args []string) (string, error) { return bomb(args, forkZombie) },
		"thread": func(args []string) (string, error) { return bomb(args, thread) },
		"spin":   spin,
		"burn":   burn,
		"timers": timers,
	}
}

// bomb repeats a function until it fails or reaches the requested number.
func bomb(args []string, one func() error) (string, error) {
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	for n := range want {
		if err := one(); err != nil {
			return "", fmt.Errorf("stopped after %d: %w", n, err)
		}
	}
	return fmt.Sprintf("%d are there", want), nil
}

// forkSleeper starts a process that lasts until the end of the sandbox.
func forkSleeper() error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		for {
			unix.RawSyscall6(unix.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
		}
	}
	return failure(errno)
}

// forkZombie starts a process that ends and is never reaped.
func forkZombie() error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno == 0 && pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return failure(errno)
}

// thread starts a thread that lasts until the end of the sandbox. At the limit, the Go runtime ends
// the whole process.
func thread() error {
	there := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(there)
		_, _ = unix.Poll(nil, -1)
	}()
	<-there
	return nil
}

// spin uses the processor with several processes, each below the limit of one process.
func spin(args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	var all sync.WaitGroup
	failed := make([]error, n)
	for i := range failed {
		all.Go(func() { failed[i] = exec.Command("/proc/self/exe", "burn", args[1]).Run() })
	}
	all.Wait()
	return "all have used it", errors.Join(failed...)
}

func burn(args []string) (string, error) {
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	for {
		var used unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
			return "", err
		}
		if time.Duration(used.Utime.Nano()+used.Stime.Nano()) > d {
			return "", nil
		}
	}
}

// timers allocates timers, which the kernel counts as pending signals.
func timers(args []string) (string, error) {
	return bomb(args, func() error {
		event := make([]byte, 64) // struct sigevent: SIGALRM by signal
		event[8] = byte(unix.SIGALRM)
		_, _, errno := unix.Syscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, addressOf(event), addressOf(make([]byte, 8)))
		return failure(errno)
	})
}

// hoards are attacks that exhaust a limited number of objects.
func hoards() map[string]attack {
	return map[string]attack{
		"descriptors": func(args []string) (string, error) {
			return bomb(args, func() error { _, err := unix.Open("/dev/null", unix.O_RDONLY, 0); return err })
		},
		"core":   raise(unix.RLIMIT_CORE),
		"output": flood,
	}
}

// raise requests a limit that would fill a disk.
func raise(resource int) attack {
	return func([]string) (string, error) {
		const want = 64 << 20
		return "", unix.Setrlimit(resource, &unix.Rlimit{Cur: want, Max: want})
	}
}

// flood writes n MiB to standard output, in lines or as one line without an end.
func flood(args []string) (string, error) {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	chunk := make([]byte, 1<<20)
	for i := range chunk {
		chunk[i] = ' '
		if args[1] == "lines" && i%64 == 63 {
			chunk[i] = '\n'
		}
	}
	for range n {
		if _, err := os.Stdout.Write(chunk); err != nil {
			return "", err
		}
	}
	return "everything was read", nil
}
