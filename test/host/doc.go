// Package host tests the scripts around the suite: the one that compares the
// machine with what it was before, the one that runs the tiers, the one that
// installs, and that a build gives the same bytes anywhere.
package host
