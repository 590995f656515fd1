// Command tiers runs Palyra's tests. A tier is a set of tests that need the same tools and
// run with the same flags; the table of tiers is in tier.go. Tiers run side by side within
// a budget of processors and memory, packages within a tier longest first.
//
// An interrupted run leaves no process, mount, control group or temporary file.
package main
