//go:build race

package call_test

// Under the race detector a call takes ten times as long. The tests of package session run all
// rounds under it, but only for the step that decides.
const races = 100
