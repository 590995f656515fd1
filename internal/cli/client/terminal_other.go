//go:build !unix

package client

// TerminalSession is "": nothing here tells one terminal from another.
func TerminalSession() string { return "" }
