// Package host tests the scripts around the suite: the installation script, and that a build
// has the same bytes on every machine.
package host
