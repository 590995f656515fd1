// Package host tests the last check of the suite: that it leaves the machine on
// which it runs as it was.
package host
