//go:build !unix

package watch

const nonBlocking = 0
