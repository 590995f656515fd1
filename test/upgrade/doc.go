// Package upgrade takes state directories that older releases made, and starts
// today's palyrad on them. testdata holds them, packed, with what their makers knew:
// who there was, what waited, what was allowed, and the verdicts of every policy of
// the documents and profiles. `make upgrade-state` makes one from the sources of its
// release, `make upgrade` makes one with 100,000 events and tests that.
//
// The keys in them are of gateways that never were anything but a test.
package upgrade
