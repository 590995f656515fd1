//go:build !unix

package edit

const noFollow = 0
