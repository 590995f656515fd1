//go:build !race

package call_test

// races is the number of sessions that the test tries.
const races = 1000
