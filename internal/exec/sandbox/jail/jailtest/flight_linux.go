package jailtest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
)

// Flight is the result of runs while programs of the same user have too many descriptors in
// flight over sockets.
type Flight struct {
	// Holder is the output of the sandboxed program that holds the descriptors.
	Holder string
	// Refused is true if the kernel refused this process another descriptor in flight, before and
	// after the runs.
	Refused bool
	// Ran is the number of runs with exit code 0, and Errors are the errors of the others.
	Ran    int
	Errors []string
}

// FlightOrder makes a test binary, as JSON in the variable FlightSpec, run a program several times
// while its user has too many descriptors in flight.
type FlightOrder struct {
	// Hold is the sandboxed program that holds the descriptors, nil if this process holds them.
	Hold *sandbox.Spec
	Spec sandbox.Spec
	Runs int
}

// FlightSpec is the variable with a FlightOrder.
const FlightSpec = "TEST_PALYRA_FLIGHT"

// ClosingRunner is a runner that its user closes.
type ClosingRunner interface {
	sandbox.Runner
	Close() error
}

// FlightMain is the main function for a FlightOrder. It prints a Flight as JSON.
func FlightMain(open func(helper []byte) (ClosingRunner, error)) (code int) {
	var o FlightOrder
	helper, err := Helper()
	if err = errors.Join(err, json.Unmarshal([]byte(os.Getenv(FlightSpec)), &o)); err == nil {
		err = o.run(helper, open)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// run runs the program with input, every other time with allowed hosts.
func (o FlightOrder) run(helper []byte, open func([]byte) (ClosingRunner, error)) (err error) {
	allow, err := egress.ParseRules([]string{"example.com:443"})
	if err != nil {
		return err
	}
	r, err := open(helper)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	specs := make([]sandbox.Spec, o.Runs)
	for i := range specs {
		specs[i] = o.Spec
		specs[i].Stdin = []byte("input")
		if i%2 == 0 { // with listeners
			specs[i].Network = &egress.Reach{Rules: egress.Rules{Allow: allow}}
		}
	}
	f, err := InFlight(r, o.Hold, specs)
	return errors.Join(err, json.NewEncoder(os.Stdout).Encode(f))
}

// holdScript sends 1,250 descriptors over a socketpair and never receives them. It prints the
// number, and whether the kernel then refuses another one.
const holdScript = `import os, socket, signal
a, b = socket.socketpair()
for i in range(5):
    socket.send_fds(a, [b"x"], [0] * 250)
try:
    socket.send_fds(a, [b"x"], [0])
    print("not full", flush=True)
except OSError as e:
    print(5 * 250, os.strerror(e.errno), flush=True)
signal.pause()
`

// HoldArgv are the arguments of the sandboxed program that holds descriptors in flight.
func HoldArgv() []string { return []string{"python3", "-c", holdScript} }

// InFlight runs specs while descriptors are in flight: those of a sandboxed program with the spec
// hold, or of this process if hold is nil. It must run as a user without other processes.
func InFlight(r sandbox.Runner, hold *sandbox.Spec, specs []sandbox.Spec) (f Flight, err error) {
	// This process has the limit that programs have by default, in place of the test's.
	var own syscall.Rlimit
	const files = 1024
	if err := errors.Join(syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own), syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: files, Max: own.Max})); err != nil {
		return f, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, unix.Close(pair[0]), unix.Close(pair[1])) }()
	if hold != nil {
		output, end, err := Hold(r, *hold)
		if err != nil {
			return f, err
		}
		f.Holder = output
		defer end()
	} else if err := fill(pair[0]); err != nil {
		return f, err
	}
	refused := func() bool { return errors.Is(sendDescriptors(pair[0], 1), unix.ETOOMANYREFS) }
	f.Refused = refused()
	for _, s := range specs {
		report, err := r.Run(context.Background(), s)
		err = errors.Join(err, report.Layer.Close())
		if err == nil && report.ExitCode != nil && *report.ExitCode == 0 {
			f.Ran++
			continue
		}
		f.Errors = append(f.Errors, fmt.Sprintf("%v: %s%s", err, Ending(report), report.Stderr.Head))
	}
	f.Refused = f.Refused && refused()
	return f, nil
}

// fill sends descriptors until the kernel refuses more.
func fill(socket int) error {
	const each = 250
	for {
		if err := sendDescriptors(socket, each); errors.Is(err, unix.ETOOMANYREFS) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func sendDescriptors(socket, n int) error {
	return unix.Sendmsg(socket, []byte("x"), unix.UnixRights(make([]int, n)...), nil, 0)
}

// Hold starts a program and returns after its first line of output. end stops the program.
func Hold(r sandbox.Runner, s sandbox.Spec) (output string, end func(), err error) {
	ctx, cancel := context.WithCancel(context.Background())
	line, ended := make(chan string, 1), make(chan error, 1)
	var once sync.Once
	var text bytes.Buffer
	s.Output = func(_ string, chunk []byte) {
		if text.Write(chunk); bytes.ContainsRune(text.Bytes(), '\n') {
			once.Do(func() { line <- text.String() })
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		report, err := r.Run(ctx, s)
		ended <- errors.Join(err, report.Layer.Close(), fmt.Errorf("the holder ended: %s%s", Ending(report), report.Stderr.Head))
	}()
	select {
	case output = <-line:
		return output, func() { cancel(); <-done }, nil
	case err := <-ended:
		cancel()
		return "", nil, err
	}
}

// FlightUser is a user of its own for tests with InFlight, because the descriptors count for all
// processes of a user.
func FlightUser(offset int) *syscall.SysProcAttr {
	uid := uint32(User + offset)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
}

// OwnTree makes the user of attr the owner of a directory.
func OwnTree(dir string, attr *syscall.SysProcAttr) error {
	return os.Chown(dir, int(attr.Credential.Uid), int(attr.Credential.Gid))
}
