// Package host tests the scripts around the suite: the one that compares the
// machine with what it was before, the one that runs the tiers, and the one that
// installs.
package host
