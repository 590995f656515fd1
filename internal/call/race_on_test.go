//go:build race

package call_test

// Under the race detector a call takes ten times as long; package session runs
// all rounds with it, with nothing but the step that decides.
const races = 100
