//go:build cgo && unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"palyra/internal/exec/wasm/wire"
)

func main() {
	// The guest's memory is not managed by the garbage collector, and calls allocate little here.
	debug.SetMemoryLimit(64 << 20)
	endAtLimit()
	if err := work(os.Args[1:]); err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "palyra-wasm:", err)
		os.Exit(1)
	}
}

// endAtLimit ends the program with the exit code of a program that SIGXCPU killed, so that palyrad
// reports the limit of processor time. Without it Go's runtime crashes with the exit code 2.
func endAtLimit() {
	reached := make(chan os.Signal, 1)
	signal.Notify(reached, syscall.SIGXCPU)
	go func() {
		<-reached
		os.Exit(128 + int(syscall.SIGXCPU))
	}()
}

func work(args []string) error {
	if len(args) != 1 || args[0] != "compile" && args[0] != "run" {
		return errors.New("only palyrad starts this program, as `palyra-wasm compile` or `palyra-wasm run`")
	}
	l, err := openLine()
	if err != nil {
		return err
	}
	if err := wire.Write(l, wire.Ready, wire.Greeting{Engine: engineName()}); err != nil {
		return err
	}
	if args[0] == "compile" {
		return compile(l)
	}
	return serve(l)
}
