// Package scope asks systemd for a scope: a unit with control groups of its own
// around a process that runs already. It speaks as much of D-Bus as that takes.
package scope
