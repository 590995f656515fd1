package desktop

import (
	"context"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"palyra/internal/core/bus"
)

// The notification server on the session bus.
const (
	server     = "org.freedesktop.Notifications"
	serverPath = "/org/freedesktop/Notifications"
)

// Here reports whether this process belongs to a graphical session.
func Here(env func(string) string) bool {
	return env("DISPLAY") != "" || env("WAYLAND_DISPLAY") != ""
}

// Find returns the desktop of this user's session, or nil if this system has none. env returns
// environment variables.
func Find(env func(string) string) Desktop { return &session{address: bus.Session(env)} }

// session is a desktop on the session bus.
type session struct {
	address string
	conn    *dbus.Conn
	// shown is the id of the current notification, 0 for none.
	shown uint32
}

// Show implements Desktop.
func (s *session) Show(ctx context.Context, title, body string) error {
	var can []string
	if err := s.call(ctx, "GetCapabilities", nil, &can); err != nil {
		return err
	}
	if slices.Contains(can, "body-markup") {
		body = escape(body)
	}
	const serversChoice = int32(-1)
	noActions, hints := []string{}, map[string]dbus.Variant{"suppress-sound": dbus.MakeVariant(true)}
	return s.call(ctx, "Notify", []any{"palyra", s.shown, "", title, body, noActions, hints, serversChoice}, &s.shown)
}

// Clear implements Desktop.
func (s *session) Clear(ctx context.Context) error {
	if s.shown == 0 {
		return nil
	}
	id := s.shown
	s.shown = 0
	// The user may have closed it before, which servers report as an error.
	_ = s.call(ctx, "CloseNotification", []any{id})
	return nil
}

// Close implements Desktop.
func (s *session) Close() {
	if s.conn != nil {
		_ = s.conn.Close()
		s.conn = nil
	}
}

// call calls the server. Servers may remove notifications of disconnected clients, so the
// connection is kept while it works.
func (s *session) call(ctx context.Context, method string, args []any, answer ...any) error {
	if s.conn == nil {
		conn, err := bus.Connect(ctx, s.address)
		if err != nil {
			return err
		}
		s.conn = conn
	}
	err := s.conn.Object(server, serverPath).CallWithContext(ctx, server+"."+method, 0, args...).Store(answer...)
	if err != nil {
		s.Close()
	}
	return err
}

// escape escapes markup: a body may contain HTML elements if the server supports them.
func escape(body string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(body)
}
