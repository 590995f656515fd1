package desktop_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/calls/desktop"
	"palyra/internal/cli/calls/desktop/desktoptest"
	"palyra/internal/core/bus/bustest"
	"palyra/internal/core/must"
)

func at(address string) desktop.Desktop {
	return desktop.Find(func(name string) string {
		if name == "DBUS_SESSION_BUS_ADDRESS" {
			return address
		}
		return ""
	})
}

func serve(t *testing.T, capabilities ...string) (*desktoptest.Server, desktop.Desktop) {
	t.Helper()
	address := bustest.New(t)
	s := must.Get(desktoptest.Serve(address, capabilities...))(t)
	t.Cleanup(s.Close)
	d := at(address)
	t.Cleanup(d.Close)
	return s, d
}

// A notification is shown, replaced and removed. It has no actions, sound, picture or link.
func TestShow(t *testing.T) {
	t.Parallel()
	s, d := serve(t, "body", "actions", "body-hyperlinks", "body-images", "icon-static", "sound")
	must.Do(t, d.Clear(t.Context()))
	must.Do(t, d.Show(t.Context(), "One", "git push"))
	n := <-s.Sent
	if n.Title != "One" || n.Body != "git push" || n.App != "palyra" || n.Replaces != 0 || n.ExpireAfterMilli != -1 {
		t.Errorf("it is %+v", n)
	}
	if len(n.Actions) != 0 || n.Icon != "" || len(n.Hints) != 1 || n.Hints["suppress-sound"].Value() != true {
		t.Errorf("it brings more than text: %+v", n)
	}
	must.Do(t, d.Show(t.Context(), "Two", "git pull"))
	if shown := s.Shown(); len(shown) != 1 || shown[0].Title != "Two" || shown[0].ID != n.ID {
		t.Errorf("shown: %+v", shown)
	}
	must.Do(t, d.Clear(t.Context()))
	if shown := s.Shown(); len(shown) != 0 {
		t.Errorf("shown: %+v", shown)
	}
	// Removing a notification that the user closed before is not an error.
	must.Do(t, d.Show(t.Context(), "Three", "x"))
	s.Dismiss()
	must.Do(t, d.Clear(t.Context()))
	must.Do(t, d.Show(t.Context(), "Four", "x"))
	if shown := s.Shown(); len(shown) != 1 || shown[0].Title != "Four" {
		t.Errorf("shown: %+v", shown)
	}
}

// A server that interprets markup gets the body escaped. Control: a server without markup gets
// it unchanged.
func TestMarkup(t *testing.T) {
	t.Parallel()
	const body = `<a href="http://x.example">ok</a> <img src="/etc/passwd"/> && &lt;`
	for _, c := range []struct{ capability, want string }{
		{"body-markup", `&lt;a href="http://x.example"&gt;ok&lt;/a&gt; &lt;img src="/etc/passwd"/&gt; &amp;&amp; &amp;lt;`},
		{"body", body},
	} {
		s, d := serve(t, c.capability)
		must.Do(t, d.Show(t.Context(), "One", body))
		if n := <-s.Sent; n.Body != c.want {
			t.Errorf("%s: it is %q, want %q", c.capability, n.Body, c.want)
		}
	}
}

func TestNotificationServerUnavailable(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"no server": bustest.New(t), "no bus": "unix:path=" + filepath.Join(t.TempDir(), "none"), "no address of one": "tcp:host=127.0.0.1,port=1",
	} {
		d := at(address)
		if err := d.Show(t.Context(), "One", "x"); err == nil {
			t.Errorf("%s: it was shown", name)
		} else if name == "no server" && !strings.Contains(err.Error(), "org.freedesktop.Notifications") {
			t.Errorf("%s: %v", name, err)
		}
		must.Do(t, d.Clear(t.Context()))
		d.Close()
	}
}

// A notification is sent to a server that starts later, or again.
func TestServerComesLater(t *testing.T) {
	t.Parallel()
	address := bustest.New(t)
	d := at(address)
	defer d.Close()
	if d.Show(t.Context(), "One", "x") == nil {
		t.Fatal("it was shown")
	}
	for range 2 {
		s := must.Get(desktoptest.Serve(address))(t)
		must.Do(t, d.Show(t.Context(), "Two", "x"))
		if shown := s.Shown(); len(shown) != 1 || shown[0].Title != "Two" {
			t.Errorf("shown: %+v", shown)
		}
		s.Close()
	}
}

// TestUnresponsiveServer: an unresponsive server delays a caller only until the caller's timeout.
func TestUnresponsiveServer(t *testing.T) {
	t.Parallel()
	address := bustest.New(t)
	s := must.Get(desktoptest.Mute(address))(t)
	defer s.Close()
	d := at(address)
	defer d.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-s.Sent; cancel() }()
	if err := d.Show(ctx, "One", "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("it ends with %v", err)
	}
}

func TestDesktopDetection(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{"DISPLAY": true, "WAYLAND_DISPLAY": true, "DBUS_SESSION_BUS_ADDRESS": false} {
		got := desktop.Here(func(asked string) string {
			if asked == name {
				return ":0"
			}
			return ""
		})
		if got != want {
			t.Errorf("with %s: %t", name, got)
		}
	}
}
