package calls_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/calls/desktop/desktoptest"
	"palyra/internal/cli/clitest"
	"palyra/internal/cli/printer"
	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/must"
)

// desktop returns a world with a graphical session, and its notification server.
func desktop(t *testing.T) (*clitest.World, *desktoptest.Server) {
	t.Helper()
	w, address := clitest.NewWorld(t), bustest.New(t)
	s := must.Get(desktoptest.Serve(address, "body", "body-markup"))(t)
	t.Cleanup(s.Close)
	w.Env["DISPLAY"], w.Env["DBUS_SESSION_BUS_ADDRESS"] = ":9", address
	return w, s
}

// watching runs the command until stop is called.
func watching(w *clitest.World, streams printer.Streams, args ...string) (stop func() clitest.Result) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan clitest.Result, 1)
	go func() { done <- w.Within(ctx, streams, append([]string{"approvals", "watch"}, args...)...) }()
	return func() clitest.Result { cancel(); return <-done }
}

// TestWatchNotifies: a pending approval has a notification with its summary, and an approval
// that is no longer pending has none.
func TestWatchNotifies(t *testing.T) {
	t.Parallel()
	w, s := desktop(t)
	w.Populate()
	w.Gateway.Approvals[clitest.ApprovalID].Prompt.Summary = "git commit -m '<b>one</b>'"
	stop := watching(w, printer.Streams{})
	n := <-s.Sent
	r := stop()
	w.Want(r, 0)
	if n.Title != "A call waits for approval" || n.Body != "git commit -m '&lt;b&gt;one&lt;/b&gt;'" || len(s.Sent) != 0 {
		t.Errorf("it is %+v, and %d more", n, len(s.Sent))
	}
	if strings.Count(r.Out, "\n") < 2 || r.Err != "" {
		t.Errorf("the watch says\n%s%s", r.Out, r.Err)
	}
}

// TestWatchNotifiesOfMany: many pending approvals have one notification.
func TestWatchNotifiesOfMany(t *testing.T) {
	t.Parallel()
	w, s := desktop(t)
	for i := range 10 {
		v := clitest.SomeApproval()
		v.ApprovalId = fmt.Sprintf("01APPROVA1000000000000000%d", i)
		w.Gateway.Approvals[v.ApprovalId] = v
	}
	stop := watching(w, printer.Streams{})
	for n := range s.Sent {
		if n.Title == "10 calls wait for approval" {
			break
		}
	}
	w.Want(stop(), 0)
	if shown := s.Shown(); len(shown) != 1 || strings.Contains(shown[0].Body, "program") {
		t.Errorf("shown: %+v", shown)
	}
}

// TestWatchIsSilent: each option that disables notifications does so. Controls:
// TestWatchNotifies, and the last case, in which the flag has precedence.
func TestWatchIsSilent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		args    []string
		change  func(w *clitest.World)
		notices int
	}{
		{"flag", []string{"--notify=false"}, func(*clitest.World) {}, 0},
		{"variable", nil, func(w *clitest.World) { w.Env["PALYRA_NOTIFY"] = "false" }, 0},
		{"file", nil, func(w *clitest.World) { w.Config("[client]\nnotify = false\n") }, 0},
		{"no graphical session", nil, func(w *clitest.World) { delete(w.Env, "DISPLAY") }, 0},
		{"asked for", []string{"--notify"}, func(w *clitest.World) { w.Config("[client]\nnotify = false\n"); delete(w.Env, "DISPLAY") }, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, s := desktop(t)
			w.Pending()
			c.change(w)
			row := clitest.NewWatcher(clitest.ApprovalID)
			stop := watching(w, printer.Streams{Out: row}, c.args...)
			<-row.Seen
			if c.notices > 0 {
				<-s.Sent
				w.Want(stop(), 0)
				return
			}
			// Control: the first notification is from a watch that started later.
			later := clitest.NewWorld(t)
			later.Pending()
			later.Gateway.Approvals[clitest.ApprovalID].Prompt.Summary = "control"
			later.Env["DBUS_SESSION_BUS_ADDRESS"] = w.Env["DBUS_SESSION_BUS_ADDRESS"]
			on := watching(later, printer.Streams{}, "--notify")
			if n := <-s.Sent; n.Body != "control" {
				t.Errorf("it is %+v", n)
			}
			w.Want(on(), 0)
			w.Want(stop(), 0)
			if len(s.Sent) != 0 {
				t.Errorf("%d more", len(s.Sent))
			}
		})
	}
}

// TestWatchWithoutADesktop: a failure of the desktop is printed once, only on a terminal, and
// the watch continues.
func TestWatchWithoutADesktop(t *testing.T) {
	t.Parallel()
	for _, terminal := range []bool{true, false} {
		w, name := clitest.NewWorld(t), filepath.Join(t.TempDir(), "bus")
		l := must.Get(net.Listen("unix", name))(t)
		refused := make(chan struct{})
		go func() {
			defer close(refused)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("NO\r\n"))
			_, _ = io.Copy(io.Discard, conn) // until the client disconnects
			_ = conn.Close()
		}()
		w.Pending()
		w.Env["DISPLAY"], w.Env["DBUS_SESSION_BUS_ADDRESS"] = ":9", "unix:path="+name
		row, said := clitest.NewWatcher(clitest.ApprovalID), clitest.NewWatcher("showing a desktop notification failed: ")
		stop := watching(w, printer.Streams{Out: row, Err: said, ErrTerminal: terminal})
		<-row.Seen
		<-refused
		if terminal {
			<-said.Seen
		}
		r := stop()
		_ = l.Close()
		w.Want(r, 0)
		if !terminal && r.Err != "" || terminal && !strings.Contains(r.Err, "--notify=false") {
			t.Errorf("in a terminal %t: it says %q", terminal, r.Err)
		}
	}
}

// TestWatchWithAnUnresponsiveDesktop: a desktop that never responds does not delay the watch.
func TestWatchWithAnUnresponsiveDesktop(t *testing.T) {
	t.Parallel()
	w, address := clitest.NewWorld(t), bustest.New(t)
	s := must.Get(desktoptest.Mute(address))(t)
	t.Cleanup(s.Close)
	w.Pending()
	w.Env["DISPLAY"], w.Env["DBUS_SESSION_BUS_ADDRESS"] = ":9", address
	row := clitest.NewWatcher(clitest.ApprovalID)
	stop := watching(w, printer.Streams{Out: row})
	<-row.Seen
	must.Receive(t, "a notification", s.Sent)
	w.Want(stop(), 0)
}
