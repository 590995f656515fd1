//go:build linux

// Command bad replaces palyra-wasm and misbehaves in the way that the last word of its file name
// selects. It behaves like a worker that a guest has taken over.
package main

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"palyra/internal/exec/wasm/wire"
)

func main() {
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	way := string(text[bytes.LastIndexByte(text, ' ')+1:])
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		panic(err)
	}
	if err := misbehave(conn, way); err != nil {
		os.Exit(1)
	}
}

// misbehave greets, compiles and loads correctly, and then misbehaves.
func misbehave(conn net.Conn, way string) error {
	if way == "silent" {
		select {}
	}
	if err := wire.Write(conn, wire.Ready, wire.Greeting{Engine: "bad"}); err != nil {
		return err
	}
	first, err := wire.Read(conn, wire.MaxBody)
	if err != nil {
		return err
	}
	if first.Kind == wire.Compile {
		return wire.Write(conn, wire.Compiled, wire.Trouble{}, []byte("code"))
	}
	if err := wire.Write(conn, wire.Loaded, wire.Trouble{}); err != nil {
		return err
	}
	if act, what, ok := strings.Cut(way, ":"); ok {
		return serve(conn, act, what)
	}
	if _, err := wire.Read(conn, wire.MaxBody); err != nil {
		return err
	}
	switch way {
	case "crash":
		panic("as told")
	case "hang":
		awaitKill()
	case "garbage":
		_, err = conn.Write(bytes.Repeat([]byte("garbage"), 1000))
	case "huge":
		_, err = conn.Write(wire.AppendHeader(nil, wire.Done, 100, 1<<31-1))
	case "fuel":
		err = wire.Write(conn, wire.Done, wire.End{Outcome: wire.Finished, Fuel: 1 << 60})
	case "result":
		err = wire.Write(conn, wire.Done, wire.End{Outcome: wire.Finished, Result: 1 << 20})
	case "outcome":
		err = wire.Write(conn, wire.Done, wire.End{Outcome: "won"})
	case "honest":
		err = wire.Write(conn, wire.Done, wire.End{Outcome: wire.Finished, Fuel: 5})
	case "known":
		err = wire.Write(conn, wire.Ask, wire.Question{Function: "grant_open", Numbers: []int32{1}, First: 4}, []byte("name"))
	case "question":
		err = wire.Write(conn, wire.Ask, wire.Question{Function: "vault_dump", Numbers: []int32{1}})
	case "numbers":
		err = wire.Write(conn, wire.Ask, wire.Question{Function: "grant_open", Numbers: make([]int32, 100)})
	}
	awaitKill()
	return err
}

// awaitKill blocks until SIGUSR2, which no process sends: palyrad kills the process.
func awaitKill() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGUSR2)
	<-signals
}

// serve makes the attack in each call, and returns the outcome as the result.
func serve(conn net.Conn, act, what string) error {
	for calls := 1; ; calls++ {
		if _, err := wire.Read(conn, wire.MaxBody); err != nil {
			return err
		}
		said := do(act, what, calls)
		if err := wire.Write(conn, wire.Done, wire.End{Outcome: wire.Finished, Fuel: 5, Result: len(said)}, said); err != nil {
			return err
		}
	}
}

func do(act, what string, calls int) []byte {
	var said []byte
	var err error
	switch act {
	case "calls":
		said = fmt.Append(nil, "calls: ", calls)
	case "dial":
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp", what, time.Second); err == nil {
			said, err = io.ReadAll(conn)
		}
	case "read":
		said, err = os.ReadFile(what)
	case "write":
		if err = os.WriteFile(what, []byte("written by a worker"), 0o600); err == nil {
			said = []byte("written by a worker")
		}
	}
	if err != nil {
		return []byte("refused: " + err.Error())
	}
	return said
}
