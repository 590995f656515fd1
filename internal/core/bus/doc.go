// Package bus connects to a D-Bus message bus: the system bus or a user's session bus.
//
// It uses godbus, but not its functions to connect: an address in the environment may name another
// machine or a program to start.
package bus
