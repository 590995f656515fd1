// Package host tests the scripts around the suite: the one that installs, and that a
// build gives the same bytes anywhere.
package host
