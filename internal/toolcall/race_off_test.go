//go:build !race

package toolcall_test

// races is how many sessions are tried.
const races = 1000
