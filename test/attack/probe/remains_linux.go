package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// remains are attacks that leave objects behind for the next run, or that continue after the end.
func remains() map[string]attack {
	return map[string]attack{
		"leave":     anyOf(func(name string) error { return os.WriteFile(name, []byte(canary), 0o666) }),
		"shm-leave": shmLeave,
		"shm-find":  shmFind,
		"survive":   survive,
		"survivor":  survivor,
		"outlast":   outlast,
	}
}

// shmKey is the key of a System V shared memory segment that is left behind.
const shmKey = 0x70616c79

func shmLeave([]string) (string, error) {
	id, err := unix.SysvShmGet(shmKey, 4096, unix.IPC_CREAT|0o666)
	if err != nil {
		return "", err
	}
	b, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return "", err
	}
	copy(b, canary)
	return "", unix.SysvShmDetach(b)
}

func shmFind([]string) (string, error) {
	id, err := unix.SysvShmGet(shmKey, 0, 0)
	if err != nil {
		return "", err
	}
	b, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(string(b), canary) {
		return "", errors.New("the segment is another")
	}
	return "the canary was read", nil
}

// survive starts processes that try to outlive the run, in the way of its first argument. All have
// a token among their arguments and hold standard output open. It ends at once, or waits for the
// deadline.
func survive(args []string) (string, error) {
	how, token, ending := args[0], args[1], args[2]
	for range 3 {
		cmd := exec.Command("/proc/self/exe", "survivor", how, token, "first")
		cmd.Stdout = os.Stdout
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			return "", err
		}
	}
	if ending == "wait" {
		awaitKill()
	}
	return "", nil
}

func survivor(args []string) (string, error) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGCONT)
	switch args[0] {
	case "stopped":
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	case "forked":
		// The session's leader ends, and its child becomes an orphan.
		if len(args) < 3 {
			break
		}
		cmd := exec.Command("/proc/self/exe", "survivor", "forked", args[1])
		cmd.Stdout = os.Stdout
		return "", cmd.Start()
	case "vfork":
		for {
			_ = exec.Command("/usr/bin/true").Run()
		}
	}
	awaitKill()
	return "", nil
}

// awaitKill blocks until SIGUSR2, which no process sends, so only a kill ends the process.
func awaitKill() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	<-signals
}

// outlast runs past the deadline and reports it.
func outlast(args []string) (string, error) {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT, syscall.SIGXCPU)
	d, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	for start := time.Now(); time.Since(start) < d; {
		if args[1] == "drip" {
			fmt.Fprint(os.Stdout, " ")
		}
		time.Sleep(d / 50)
	}
	return "worked for " + args[0], nil
}
