//go:build !unix

package client

// TerminalSession returns "": this system does not distinguish terminals.
func TerminalSession() string { return "" }
