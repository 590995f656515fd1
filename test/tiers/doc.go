// Command tiers runs Palyra's tests. A tier is a set of tests that need the same tools and
// run with the same flags; the table of tiers is in tier.go. Tiers run side by side within
// a budget of processors and memory, packages within a tier longest first.
//
// An interrupted run leaves no process, mount, control group or temporary file.
//
// gotestsum was rejected, because it runs one go test; tiers, requirements and clean-up would
// still need a program around it. This program uses the standard library only, so that `make t`
// needs no network. It has these rules:
//
// `make t` tests direct importers only, because importers of importers are nearly all packages.
// Every tier compiles with -trimpath like `make build`, so that all checkouts share the build
// cache. A supervisor process above the tests, a child subreaper (prctl(2)), finds everything that
// tests start. Programs are copied into the directory of a test: the go command repeats a test when
// an opened file differs. A long test does a part of its work in `make test` (needs.Long).
package main
