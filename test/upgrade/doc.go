// Package upgrade starts the current palyrad on state directories of older releases. testdata
// has these directories as archives, with the data of their makers. The data are the members,
// the pending approvals, the grants, and the verdicts of every policy of the documents and
// profiles. `make upgrade-state` creates one from the sources of its release. `make upgrade`
// creates one with 100,000 events and tests it.
//
// testdata/refused has state directories of schemas that the current palyrad does not upgrade.
//
// The keys in them belong to gateways that were used only for tests.
package upgrade
