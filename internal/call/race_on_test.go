//go:build race

package call_test

// A call takes ten times as long under the race detector. The tests of package session run all
// rounds under it, but only for the step that decides.
const races = 100
