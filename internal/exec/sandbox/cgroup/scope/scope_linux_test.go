package scope

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"palyra/internal/core/bus"
	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/must"
)

// TestRealBus: a real bus accepts the messages. It refuses because systemd is missing, not because
// of a malformed message, after which it would close the connection.
func TestRealBus(t *testing.T) {
	t.Parallel()
	err := askAt(t.Context(), bustest.New(t), "user-0.slice")
	if err == nil || !strings.Contains(err.Error(), "ServiceUnknown") {
		t.Errorf("a bus without systemd says: %v", err)
	}
	// The body of the order is well-formed as well: the bus itself is asked to start a scope,
	// and reports an unknown method.
	conn := must.Get(bus.ConnectOnce(t.Context(), bustest.New(t), mostReceived))(t)
	defer conn.Close()
	call := conn.BusObject().Call("org.freedesktop.DBus.StartTransientUnit", 0, order("user-0.slice")...)
	if call.Err == nil || readable(call.Err).Error() != "org.freedesktop.DBus.Error.UnknownMethod: org.freedesktop.DBus does not understand message StartTransientUnit" {
		t.Errorf("the bus says: %v", call.Err)
	}
	if got := dbus.SignatureOf(order("user-0.slice")...).String(); got != "ssa(sv)a(sa(sv))" {
		t.Errorf("the signature of the order is %s", got)
	}
}

// TestReachable: Reachable finds systemd without changing anything. A real bus without systemd is the control.
func TestReachable(t *testing.T) {
	t.Parallel()
	must.Check(t, reachableAt(t.Context(), fakeSystemd(t, mustNotBeAsked)))
	if err := reachableAt(t.Context(), "unix:path="+filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("there is a systemd where there is no bus")
	}
	if err := reachableAt(t.Context(), bustest.New(t)); err == nil || !strings.Contains(err.Error(), "systemd is not on the bus") {
		t.Errorf("a bus without systemd says: %v", err)
	}
}

// mustNotBeAsked is the result of a job that must not be started.
const mustNotBeAsked = "the job must not be requested"

// fakeSystemd answers every call, and ends the job with a result.
func fakeSystemd(t *testing.T, result string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "bus")
	l := must.Get(net.Listen("unix", name))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		from := acceptUser(conn)
		for {
			m, err := dbus.DecodeMessage(from)
			if err != nil {
				return
			}
			member, _ := m.Headers[dbus.FieldMember].Value().(string)
			if result == mustNotBeAsked && !slices.Contains([]string{"Hello", "NameHasOwner"}, member) {
				t.Errorf("it was asked to %s", member)
			}
			var body []any
			switch member {
			case "Hello":
				body = []any{":1.1"}
			case "NameHasOwner":
				body = []any{true}
			case "StartTransientUnit":
				// Another job ends first, and the requested one before its answer was sent.
				_, _ = conn.Write(removed(t, "/job/6", "failed"))
				_, _ = conn.Write(removed(t, "/job/7", result))
				body = []any{dbus.ObjectPath("/job/7")}
			}
			_, _ = conn.Write(message(t, dbus.TypeMethodReply, map[dbus.HeaderField]any{dbus.FieldReplySerial: m.Serial()}, body...))
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "unix:path=" + name
}

// acceptUser authenticates a client and returns the reader of its messages.
func acceptUser(conn net.Conn) *bufio.Reader {
	from := bufio.NewReader(conn)
	for _, answer := range []string{"REJECTED EXTERNAL\r\n", "OK 1234\r\n", ""} {
		_, _ = from.ReadString('\n')
		_, _ = conn.Write([]byte(answer))
	}
	return from
}

// message returns the bytes of a message.
func message(t *testing.T, kind dbus.Type, headers map[dbus.HeaderField]any, body ...any) []byte {
	t.Helper()
	m := dbus.Message{Type: kind, Headers: map[dbus.HeaderField]dbus.Variant{}, Body: body}
	for field, value := range headers {
		m.Headers[field] = dbus.MakeVariant(value)
	}
	if len(body) > 0 {
		m.Headers[dbus.FieldSignature] = dbus.MakeVariant(dbus.SignatureOf(body...))
	}
	var b bytes.Buffer
	must.Do(t, m.EncodeTo(&b, binary.LittleEndian))
	return b.Bytes()
}

func removed(t *testing.T, job dbus.ObjectPath, result string) []byte {
	t.Helper()
	return message(t, dbus.TypeSignal, map[dbus.HeaderField]any{
		dbus.FieldPath: dbus.ObjectPath(managerPath), dbus.FieldInterface: managerInterface, dbus.FieldMember: "JobRemoved",
	}, uint32(7), job, "palyrad-1.scope", result)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	if err := askAt(t.Context(), fakeSystemd(t, "done"), ""); err != nil {
		t.Errorf("systemd did the job: %v", err)
	}
	if err := askAt(t.Context(), fakeSystemd(t, "failed"), ""); err == nil || !strings.HasSuffix(err.Error(), "ended with failed") {
		t.Errorf("systemd's job failed: %v", err)
	}
	for _, address := range []string{"", "tcp:host=localhost", "unix:path=" + filepath.Join(t.TempDir(), "none")} {
		if askAt(t.Context(), address, "") == nil {
			t.Errorf("%q is a bus", address)
		}
	}
}

// A bus is untrusted. It cannot fill the memory or the log, nor send control characters to a
// terminal.
func TestHostileBus(t *testing.T) {
	t.Parallel()
	accepted := "REJECTED EXTERNAL\r\nOK 1\r\n"
	refusal := message(t, dbus.TypeError, map[dbus.HeaderField]any{dbus.FieldErrorName: "a.b", dbus.FieldReplySerial: uint32(1)},
		"\x1b[2Jforged\nline "+strings.Repeat("x", 1<<19))
	hello := message(t, dbus.TypeMethodReply, map[dbus.HeaderField]any{dbus.FieldReplySerial: uint32(1)}, ":1.1")
	for name, says := range map[string][]byte{
		"no end of a line":    bytes.Repeat([]byte("O"), 2*mostReceived),
		"a refusal":           []byte("REJECTED EXTERNAL\r\nREJECTED \x1b[2J\r\n"),
		"a long error":        append([]byte(accepted), refusal...),
		"no message":          append([]byte(accepted), bytes.Repeat([]byte("lO"), mostReceived)...),
		"signals and nothing": append(append([]byte(accepted), hello...), bytes.Repeat(removed(t, "/job/6", "done"), 2*mostReceived/100)...),
	} {
		l := must.Get(net.Listen("unix", filepath.Join(t.TempDir(), "bus")))(t)
		sent := make(chan int, 1)
		go func() {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			go func() { _, _ = io.Copy(io.Discard, conn) }()
			n, _ := conn.Write(says)
			sent <- n
		}()
		err := askAt(t.Context(), "unix:path="+l.Addr().String(), "")
		if err == nil || len(err.Error()) > 2*maxQuoted || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("%s: %.300q", name, err)
		}
		if n := <-sent; len(says) > 2*mostReceived-mostReceived/2 && n == len(says) {
			t.Errorf("%s: all %d bytes were read", name, n)
		}
		l.Close()
	}
}
