// Package desktoptest is a desktop for tests: a server that implements the specification of
// org.freedesktop.Notifications.
package desktoptest

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/godbus/dbus/v5"
)

const (
	name = "org.freedesktop.Notifications"
	path = "/org/freedesktop/Notifications"
)

// Notification is a received notification, with its assigned id.
type Notification struct {
	ID, Replaces     uint32
	App, Icon        string
	Title, Body      string
	Actions          []string
	Hints            map[string]dbus.Variant
	ExpireAfterMilli int32
}

// Server records notifications.
type Server struct {
	conn *dbus.Conn
	// Sent receives every notification and every removal (with the id alone).
	Sent chan Notification

	mu     sync.Mutex
	last   uint32
	shown  map[uint32]Notification
	mute   chan struct{}
	closed sync.Once
}

// Serve serves on a bus with these capabilities until Close.
func Serve(address string, capabilities ...string) (*Server, error) {
	conn, err := dbus.Connect(address)
	if err != nil {
		return nil, err
	}
	s := &Server{conn: conn, Sent: make(chan Notification, 1000), shown: map[uint32]Notification{}, mute: make(chan struct{})}
	if err := conn.Export(methods{s, capabilities}, path, name); err != nil {
		return nil, err
	}
	reply, err := conn.RequestName(name, dbus.NameFlagDoNotQueue)
	if err != nil || reply != dbus.RequestNameReplyPrimaryOwner {
		return nil, fmt.Errorf("%s is taken (%v): %w", name, reply, err)
	}
	return s, nil
}

// Mute returns a server that accepts every call and never answers.
func Mute(address string) (*Server, error) {
	s, err := Serve(address)
	if err == nil {
		err = s.conn.Export(silent{s}, path, name)
	}
	return s, err
}

// Close ends the server.
func (s *Server) Close() {
	s.closed.Do(func() {
		close(s.mute)
		// The bus answers this once the name is free; it notices a closed connection only later.
		_, _ = s.conn.ReleaseName(name)
		_ = s.conn.Close()
	})
}

// Shown returns the current notifications, oldest first.
func (s *Server) Shown() []Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Notification
	for _, id := range slices.Sorted(maps.Keys(s.shown)) {
		list = append(list, s.shown[id])
	}
	return list
}

// Dismiss closes all notifications like a user.
func (s *Server) Dismiss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.shown)
}

// methods are the methods for clients.
type methods struct {
	s            *Server
	capabilities []string
}

// GetCapabilities is specified by org.freedesktop.Notifications.
func (m methods) GetCapabilities() ([]string, *dbus.Error) { return m.capabilities, nil }

// Notify is specified by org.freedesktop.Notifications: an existing id is replaced, any other is
// new.
func (m methods) Notify(app string, replaces uint32, icon, title, body string, actions []string, hints map[string]dbus.Variant, expire int32) (uint32, *dbus.Error) {
	s := m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	id := replaces
	if _, known := s.shown[id]; !known {
		s.last++
		id = s.last
	}
	n := Notification{id, replaces, app, icon, title, body, actions, hints, expire}
	s.shown[id] = n
	s.Sent <- n
	return id, nil
}

// CloseNotification is specified by org.freedesktop.Notifications.
func (m methods) CloseNotification(id uint32) *dbus.Error {
	s := m.s
	s.mu.Lock()
	_, known := s.shown[id]
	delete(s.shown, id)
	s.mu.Unlock()
	if !known {
		return dbus.NewError(name+".Error.NoSuchNotification", nil)
	}
	s.Sent <- Notification{ID: id}
	const byCall = uint32(3)
	_ = s.conn.Emit(path, name+".NotificationClosed", id, byCall)
	return nil
}

// silent does not respond until the server is closed.
type silent struct{ s *Server }

// GetCapabilities blocks.
func (m silent) GetCapabilities() ([]string, *dbus.Error) {
	m.s.Sent <- Notification{}
	<-m.s.mute
	return nil, nil
}
