//go:build !race

package call_test

// races is how many sessions are tried.
const races = 1000
