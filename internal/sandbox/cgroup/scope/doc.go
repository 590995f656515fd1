// Package scope asks systemd for a scope: a unit with control groups of its own
// around a process that runs already.
package scope
