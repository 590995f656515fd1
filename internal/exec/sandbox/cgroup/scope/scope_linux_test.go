package scope

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"palyra/internal/core/must"
)

// realBus starts a real message bus for this test only.
func realBus(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("dbus-daemon")
	if err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "bus.conf")
	must.Do(t, os.WriteFile(config, fmt.Appendf(nil, `<busconfig><type>session</type><listen>unix:path=%s/bus</listen>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`, dir), 0o600))
	cmd := exec.Command(program, "--config-file="+config, "--nofork", "--print-address=1")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return strings.TrimSpace(must.Get(bufio.NewReader(out).ReadString('\n'))(t))
}

// A real bus accepts the messages. It refuses because systemd is missing, and not because of a
// malformed message, after which it would close the connection.
func TestRealBus(t *testing.T) {
	t.Parallel()
	err := askAt(t.Context(), realBus(t), "user-0.slice")
	if err == nil || !strings.Contains(err.Error(), "ServiceUnknown") {
		t.Errorf("a bus without systemd says: %v", err)
	}
	// The body of the order is well-formed as well. If the bus itself receives the request for a
	// scope, it reports an unknown method and keeps the connection.
	b := must.Get(connect(t.Context(), realBus(t)))(t)
	defer b.close()
	must.Get(b.call(call{busName, busPath, busName, "Hello", "", nil}))(t)
	for range 2 {
		_, err := b.call(call{busName, busPath, busName, "StartTransientUnit", "ssa(sv)a(sa(sv))", order("user-0.slice")})
		if err == nil || !strings.Contains(err.Error(), "UnknownMethod") {
			t.Errorf("the bus says: %v", err)
		}
	}
	// Control: a body that does not match its signature.
	_, err = b.call(call{busName, busPath, busName, "StartTransientUnit", "ssa(sv)a(sa(sv))", order("user-0.slice")[:40]})
	if err == nil || strings.Contains(err.Error(), "UnknownMethod") {
		t.Errorf("control: the bus says of half a message: %v", err)
	}
}

// Reachable detects systemd without changing any state. Control: a real bus without systemd.
func TestReachable(t *testing.T) {
	t.Parallel()
	must.Check(t, reachableAt(t.Context(), fakeSystemd(t, mustNotBeAsked)))
	if err := reachableAt(t.Context(), "unix:path="+filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("there is a systemd where there is no bus")
	}
	if err := reachableAt(t.Context(), realBus(t)); err == nil || !strings.Contains(err.Error(), "systemd is not on the bus") {
		t.Errorf("a bus without systemd says: %v", err)
	}
}

// mustNotBeAsked is the result of a job that must not be started.
const mustNotBeAsked = "nobody may ask for a job"

// fakeSystemd starts a bus that answers every call, and ends the job with a result.
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
		from := bufio.NewReader(conn)
		_, _ = from.ReadString('\n')
		_, _ = conn.Write([]byte("OK 1234\r\n"))
		_, _ = from.ReadString('\n')
		for {
			m, err := read(from)
			if err != nil {
				return
			}
			var body encoder
			if result == mustNotBeAsked && !slices.Contains([]string{"Hello", "NameHasOwner"}, m.member) {
				t.Errorf("it was asked to %s", m.member)
			}
			if m.member == "NameHasOwner" {
				body.word(1)
			}
			if m.member == "StartTransientUnit" {
				// Another job ends first, and the requested job ends before its response is sent.
				_, _ = conn.Write(removed("/job/6", "failed"))
				_, _ = conn.Write(removed("/job/7", result))
				body.text("/job/7")
			}
			_, _ = conn.Write(answer(m.serial, body.bytes))
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "unix:path=" + name
}

func answer(serial uint32, body []byte) []byte {
	e := encoder{bytes: []byte{'l', reply, 0, 1}}
	e.word(uint32(len(body)))
	e.word(1)
	e.array(8, func() {
		e.bytes = append(e.bytes, fieldAnswers)
		e.signature("u")
		e.word(serial)
	})
	e.align(8)
	return append(e.bytes, body...)
}

func removed(job, result string) []byte {
	var body encoder
	body.word(7)
	body.text(job)
	body.text("palyrad-1.scope")
	body.text(result)
	e := encoder{bytes: []byte{'l', signal, 0, 1}}
	e.word(uint32(len(body.bytes)))
	e.word(9)
	e.array(8, func() {
		e.bytes = append(e.bytes, fieldMember)
		e.signature("s")
		e.text("JobRemoved")
	})
	e.align(8)
	return append(e.bytes, body.bytes...)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	if err := askAt(t.Context(), fakeSystemd(t, "done"), ""); err != nil {
		t.Errorf("systemd did the job: %v", err)
	}
	if err := askAt(t.Context(), fakeSystemd(t, "failed"), ""); err == nil || !strings.Contains(err.Error(), `"failed"`) {
		t.Errorf("systemd's job failed: %v", err)
	}
	for _, address := range []string{"", "tcp:host=localhost", "unix:path=" + filepath.Join(t.TempDir(), "none")} {
		if askAt(t.Context(), address, "") == nil {
			t.Errorf("%q is a bus", address)
		}
	}
}

// Reading ends for any bytes from a bus.
func FuzzRead(f *testing.F) {
	f.Add(answer(3, []byte("x")))
	f.Add(removed("/job/7", "done"))
	f.Add(call{busName, busPath, busName, "Hello", "", nil}.encode(1))
	f.Fuzz(func(t *testing.T, text []byte) {
		for from := bufio.NewReader(bytes.NewReader(text)); ; {
			m, err := read(from)
			if err != nil {
				return
			}
			d := decoder{bytes: m.body}
			_, _ = d.word(), d.text()
		}
	})
}

// A bus is untrusted. It cannot fill the memory or the log, nor send control characters to a
// terminal.
func TestHostileBus(t *testing.T) {
	t.Parallel()
	var text encoder
	text.text("\x1b[2Jforged\nline " + strings.Repeat("x", 1<<19))
	refusal := encoder{bytes: []byte{'l', failure, 0, 1}}
	refusal.word(uint32(len(text.bytes)))
	refusal.word(1)
	refusal.array(8, func() {
		refusal.bytes = append(refusal.bytes, fieldAnswers)
		refusal.signature("u")
		refusal.word(1)
	})
	refusal.align(8)
	for name, says := range map[string][]byte{
		"no end of a line":    bytes.Repeat([]byte("O"), 1<<20),
		"a refusal":           []byte("REJECTED \x1b[2J\r\n"),
		"a long error":        append([]byte("OK 1\r\n"), append(refusal.bytes, text.bytes...)...),
		"signals and nothing": append([]byte("OK 1\r\n"), bytes.Repeat(removed("/job/6", "done"), 2*mostMissed)...),
	} {
		server, client := net.Pipe()
		go func() {
			defer server.Close()
			from := bufio.NewReader(server)
			_, _ = from.ReadString('\n')
			go func() { _, _ = from.WriteTo(io.Discard) }()
			_, _ = server.Write(says)
		}()
		b := &bus{conn: client, from: bufio.NewReader(client)}
		err := b.authenticate()
		if err == nil {
			_, err = b.call(call{busName, busPath, busName, "Hello", "", nil})
		}
		switch {
		case err == nil || len(err.Error()) > 2*maxQuoted || strings.ContainsAny(err.Error(), "\x1b\n"):
			t.Errorf("%s: %.300q", name, err)
		case errors.Is(err, io.EOF) || len(b.missed) > mostMissed:
			t.Errorf("%s: all of it was read, and %d signals are kept: %v", name, len(b.missed), err)
		}
		client.Close()
	}
}
