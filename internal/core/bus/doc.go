// Package bus connects to a D-Bus message bus: the system's, or that of a user's
// session.
package bus
