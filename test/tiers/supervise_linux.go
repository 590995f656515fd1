package main

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// workerVariable is set in the process that runs the tests, below the one that supervises.
const workerVariable = "TEST_PALYRA_WORKER"

// stopPatience is how long the process that runs the tests may take to report after a signal,
// before it and all its descendants are killed.
const stopPatience = 5 * time.Second

// supervise runs this program again as a child with its own directory for temporary files, and
// removes everything that the child leaves behind, however it ended. It returns the exit code of
// the child. In the child, isWorker is true.
func supervise() (code int, isWorker bool) {
	if os.Getenv(workerVariable) != "" {
		return 0, true
	}
	code, err := superviseWorker()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tiers:", err)
		code = max(code, 1)
	}
	return code, false
}

func superviseWorker() (code int, err error) {
	if err := adoptOrphans(); err != nil {
		return 1, err
	}
	dir, err := temporaryDirectory()
	if err != nil {
		return 1, err
	}
	left := before(dir)
	defer func() { err = errors.Join(err, left.remove()) }()
	self, err := os.Executable()
	if err != nil {
		return 1, err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), workerVariable+"=1", "TMPDIR="+dir)
	// A supervisor that is killed by SIGKILL takes the worker with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	runtime.LockOSThread() // the signal is sent when the thread that started the worker ends
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan int, 1)
	go func() { ended <- waitFor(cmd.Process.Pid) }()
	select {
	case code = <-ended:
		return code, nil
	case s := <-signals:
		_ = cmd.Process.Signal(s)
	}
	select {
	case code = <-ended:
	case <-time.After(stopPatience):
	}
	return max(code, 130), errors.New("interrupted; what the tests started is ended and removed")
}

// waitFor collects the exit states of all children, including adopted ones, until the child with
// this pid ends, and returns its exit code.
func waitFor(pid int) int {
	for {
		var status syscall.WaitStatus
		got, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1
		case got == pid && status.Signaled():
			return 128 + int(status.Signal())
		case got == pid:
			return status.ExitStatus()
		}
	}
}

// temporaryDirectory creates a directory with a short name, because the path of a socket may have
// 107 bytes, see unix(7). The name is the same for each run of a checkout: the go command caches
// results only for an unchanged TMPDIR.
func temporaryDirectory() (string, error) {
	checkout := crc32.ChecksumIEEE([]byte(workingDirectory()))
	for n := checkout % 10000; ; n++ {
		dir := filepath.Join(os.TempDir(), "t"+strconv.FormatUint(uint64(n), 10))
		err := os.Mkdir(dir, 0o755) //nolint:gosec // programs of other users look into it
		if err == nil {
			return dir, nil
		}
		if !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
}
