//go:build linux

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"palyra/internal/core/must"
)

// beginSleeping starts a program that sleeps in its sandbox and waits until it runs. It returns
// a function that reports whether the program is still running. The duration of the sleep
// identifies the process on the machine.
func beginSleeping(t *testing.T, c *client, wholeSeconds int) (*pending, func() bool) {
	t.Helper()
	seconds := fmt.Sprintf("%d.%d", wholeSeconds, os.Getpid())
	call := c.begin("call", "process.run", `argv=["sleep","`+seconds+`"]`)
	running := func() bool { return processRuns("sleep", seconds) }
	must.Eventually(t, "the program runs", func() (bool, string) { return running(), call.Err.String() })
	return call, running
}

// processRuns reports whether a process of this machine has exactly these arguments.
func processRuns(argv ...string) bool {
	var want []byte
	for _, a := range argv {
		want = append(append(want, a...), 0)
	}
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range lines {
		if line, err := os.ReadFile(path); err == nil && bytes.Equal(line, want) {
			return true
		}
	}
	return false
}

// TestFreeze: a freeze stops a running sandbox and every later call, across a restart, until
// the thaw.
func TestFreeze(t *testing.T) {
	t.Parallel()
	g := newGateway(t)
	g.policy("10.cedar", waived)
	g.Start()
	c := g.local()
	waiting := c.begin("call", "fs.write", "path=b.txt", "content=new")
	a := waiting.asked()
	call, running := beginSleeping(t, c, 3001)

	c.ok("freeze", "--reason", "fire drill")
	must.Eventually(t, "the program is killed", func() (bool, string) { return !running(), "it runs" })
	if r := call.wait(); r.Code == 0 {
		t.Errorf("the stopped call ended with exit code 0: %s", r.Out)
	} else {
		r.Want(t, 3, "GATEWAY_FROZEN")
	}
	stopped := c.lastAttestation().Statement.Predicate
	if stopped.Result.Outcome != "cancelled" || stopped.Result.Reason != "GATEWAY_FROZEN" {
		t.Errorf("the attestation says %+v", stopped.Result)
	}
	c.run("call", "echo", "text=hi").Want(t, 3, "GATEWAY_FROZEN")

	// People can still answer approvals, but no call runs.
	c.allow(a)
	if r := waiting.wait(); r.Code == 0 || g.Read("b.txt") != "" {
		t.Errorf("a call ran in a frozen gateway: exit code %d, %q", r.Code, g.Read("b.txt"))
	}

	g.Stop()
	g.Start()
	if s := c.status().Freeze; !s.Frozen || s.Reason != "fire drill" {
		t.Errorf("after the restart the freeze is %+v", s)
	}
	c.run("call", "echo", "text=hi").Want(t, 3, "GATEWAY_FROZEN")
	g.Kill()
	g.Start()
	c.run("call", "echo", "text=hi").Want(t, 3, "GATEWAY_FROZEN")
	c.ok("thaw")
	c.ok("call", "echo", "text=hi")
	if n, m := len(c.events("PAL-P102")), len(c.events("PAL-P103")); n != 1 || m != 1 {
		t.Errorf("the journal has %d freezes and %d thaws, want one each", n, m)
	}
}

// hold keeps idle connections to an address open, and replaces each that is closed.
func hold(t *testing.T, address string, count int) {
	t.Helper()
	var all sync.WaitGroup
	opened := make(chan bool, count)
	for range count {
		all.Go(func() {
			for first := true; t.Context().Err() == nil; first = false {
				conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
				if first {
					opened <- err == nil
				}
				if err != nil {
					return
				}
				stop := context.AfterFunc(t.Context(), func() { _ = conn.Close() })
				_, _ = conn.Read(make([]byte, 1)) // until one side closes it
				stop()
				_ = conn.Close()
			}
		})
	}
	t.Cleanup(all.Wait)
	for range count {
		if !<-opened {
			t.Fatal("a connection could not be opened")
		}
	}
}

// TestFreezeBesideIdleConnections: idle connections beyond the gateway's limit do not block a
// freeze over TCP with a device certificate.
func TestFreezeBesideIdleConnections(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	c := &client{g: g, credentials: filepath.Join(g.State, "operator")}
	hold(t, g.address(), 1200) // listen.max_connections is 1024
	for range 20 {
		c.ok("freeze", "--reason", "a flood")
	}
}
