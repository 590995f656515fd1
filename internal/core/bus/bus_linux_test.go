package bus_test

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"palyra/internal/core/bus"
	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/must"
)

func TestConnect(t *testing.T) {
	t.Parallel()
	address := bustest.New(t)
	none := "unix:path=" + filepath.Join(t.TempDir(), "none")
	for _, at := range []string{address, none + ";" + address, "tcp:host=127.0.0.1,port=1;" + address} {
		ctx, cancel := context.WithCancel(t.Context())
		conn := must.Get(bus.Connect(ctx, at))(t)
		// The context of the connect does not end the connection.
		cancel()
		var id string
		if err := conn.BusObject().CallWithContext(t.Context(), "org.freedesktop.DBus.GetId", 0).Store(&id); err != nil || id == "" {
			t.Errorf("%s: the bus says %q, %v", at, id, err)
		}
		must.Do(t, conn.Close())
	}
	if _, err := bus.Connect(t.Context(), none); err == nil {
		t.Error("nothing is a bus")
	}
}

// An address from the environment cannot reach a host or start a program. Control: a socket,
// which is reached.
func TestSocketsOfThisMachineAlone(t *testing.T) {
	t.Parallel()
	marker := filepath.Join(t.TempDir(), "marker")
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	for _, at := range []string{
		"", "autolaunch:", "tcp:host=127.0.0.1,port=" + port, "nonce-tcp:host=127.0.0.1,port=" + port + ",noncefile=/dev/null",
		"unixexec:path=/usr/bin/touch,argv1=" + marker, "unix:tmpdir=/tmp", "path=" + marker,
	} {
		if conn, err := bus.Connect(t.Context(), at); err == nil {
			_ = conn.Close()
			t.Errorf("%q is a bus", at)
		}
	}
	if entries := must.Get(filepath.Glob(marker))(t); len(entries) != 0 {
		t.Error("a program was started")
	}
	// The first connection that the host receives is the test's own.
	own := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	defer own.Close()
	first := must.Get(l.Accept())(t)
	defer first.Close()
	if first.RemoteAddr().String() != own.LocalAddr().String() {
		t.Error("a host was connected to")
	}
}

// A bus that accepts a connection and sends nothing is abandoned in time.
func TestSilentBus(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "bus")
	l := must.Get(net.Listen("unix", name))(t)
	defer l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		// The client's data has arrived; no answer follows.
		_, _ = conn.Read(make([]byte, 1))
		cancel()
		_, _ = io.Copy(io.Discard, conn) // until the client disconnects
	}()
	if _, err := bus.Connect(ctx, "unix:path="+name); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
	<-done
}

// Not parallel: it sets DBUS_SYSTEM_BUS_ADDRESS of the process.
func TestAddresses(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "")
	if at := bus.System(); at != "unix:path=/run/dbus/system_bus_socket" {
		t.Error(at)
	}
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/x")
	if at := bus.System(); at != "unix:path=/x" {
		t.Error(at)
	}
	if at := bus.Session(func(name string) string { return "of " + name }); at != "of DBUS_SESSION_BUS_ADDRESS" {
		t.Error(at)
	}
}
