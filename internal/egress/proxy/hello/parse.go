package hello

import (
	"slices"
	"strings"
)

// The extensions that are evaluated.
const (
	extensionServerName = 0
	extensionECH        = 0xfe0d
)

// parse reads the body of a ClientHello (RFC 8446, section 4.1.2; before TLS
// 1.3 it may end without extensions).
func parse(body []byte) (Hello, error) {
	var h Hello
	m := message(body)
	_, ok := m.take(2) // the version; TLS 1.3 sends it in an extension
	random, ok1 := m.take(32)
	session, ok2 := m.vector(1)
	suites, ok3 := m.vector(2)
	compressions, ok4 := m.vector(1)
	switch {
	case !ok || !ok1 || !ok2 || !ok3 || !ok4 || len(random) != 32:
		return h, malformed("it ends too early")
	case len(session) > 32:
		return h, malformed("the session has %d bytes", len(session))
	case len(suites) == 0 || len(suites)%2 != 0:
		return h, malformed("the cipher suites have %d bytes", len(suites))
	case len(compressions) == 0:
		return h, malformed("there is no compression method")
	}
	if len(m) == 0 {
		return h, nil
	}
	extensions, ok := m.vector(2)
	if !ok || len(m) != 0 {
		return h, malformed("the extensions have another length")
	}
	return h, h.extend(extensions)
}

// extend reads the extensions.
func (h *Hello) extend(m message) error {
	var seen []int
	for len(m) > 0 {
		kind, ok := m.number(2)
		content, ok1 := m.vector(2)
		switch {
		case !ok || !ok1:
			return malformed("an extension ends too early")
		case slices.Contains(seen, kind):
			return malformed("extension %d is there twice", kind)
		}
		seen = append(seen, kind)
		var err error
		switch kind {
		case extensionServerName:
			h.ServerName, err = serverName(content)
		case extensionECH:
			h.ECH = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// serverName reads the extension with the server name, which must contain exactly one host
// name.
func serverName(m message) (string, error) {
	list, ok := m.vector(2)
	kind, ok1 := list.number(1)
	name, ok2 := list.vector(2)
	switch {
	case !ok || !ok1 || !ok2 || len(m) != 0 || len(list) != 0 || kind != 0:
		return "", malformed("the server name is not one host name")
	case len(name) == 0 || strings.HasSuffix(string(name), "."):
		return "", malformed("the server name is empty or ends with a dot")
	}
	return string(name), nil
}

// message is the unread part of a message. Methods return false if too few bytes are left.
type message []byte

func (m *message) take(n int) (message, bool) {
	if len(*m) < n {
		return nil, false
	}
	taken := (*m)[:n]
	*m = (*m)[n:]
	return taken, true
}

// number reads a big-endian number of size bytes.
func (m *message) number(size int) (int, bool) {
	b, ok := m.take(size)
	n := 0
	for _, c := range b {
		n = n<<8 | int(c)
	}
	return n, ok
}

// vector reads a vector with a length prefix of size bytes.
func (m *message) vector(size int) (message, bool) {
	n, ok := m.number(size)
	if !ok {
		return nil, false
	}
	return m.take(n)
}
