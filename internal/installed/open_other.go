//go:build !unix

package installed

const nonBlocking = 0
