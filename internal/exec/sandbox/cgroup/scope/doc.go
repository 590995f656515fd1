// Package scope requests a scope from systemd: a unit with separate control groups around a
// running process. It implements only the required part of D-Bus.
package scope
