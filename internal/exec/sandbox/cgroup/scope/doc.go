// Package scope requests a scope from systemd over D-Bus: a unit with separate control groups
// around a running process.
package scope
