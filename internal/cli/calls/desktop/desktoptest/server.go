// Package desktoptest is a desktop for tests: a server of
// org.freedesktop.Notifications that behaves as its specification says.
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

// Notification is one as a client sent it, with the id that it got.
type Notification struct {
	ID, Replaces     uint32
	App, Icon        string
	Title, Body      string
	Actions          []string
	Hints            map[string]dbus.Variant
	ExpireAfterMilli int32
}

// Server shows notifications to nobody.
type Server struct {
	conn *dbus.Conn
	// Sent has every notification and every removal (with the id alone) as it
	// comes.
	Sent chan Notification

	mu     sync.Mutex
	last   uint32
	shown  map[uint32]Notification
	mute   chan struct{}
	closed sync.Once
}

// Serve answers at a bus with these capabilities until Close.
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

// Mute is a server that takes every call and answers none.
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
		_ = s.conn.Close()
	})
}

// Shown is what a person sees now, oldest first.
func (s *Server) Shown() []Notification {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []Notification
	for _, id := range slices.Sorted(maps.Keys(s.shown)) {
		list = append(list, s.shown[id])
	}
	return list
}

// Dismiss is a person who closes all that is shown.
func (s *Server) Dismiss() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.shown)
}

// methods are what clients can call.
type methods struct {
	s            *Server
	capabilities []string
}

// GetCapabilities is of the specification.
func (m methods) GetCapabilities() ([]string, *dbus.Error) { return m.capabilities, nil }

// Notify is of the specification: an id that is shown is replaced, and any other is
// a new one.
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

// CloseNotification is of the specification.
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

// silent answers nothing before the server is closed.
type silent struct{ s *Server }

// GetCapabilities waits.
func (m silent) GetCapabilities() ([]string, *dbus.Error) {
	m.s.Sent <- Notification{}
	<-m.s.mute
	return nil, nil
}
