//go:build !unix

package toolchain

// writable returns "" on platforms without owners and modes.
func writable(string, bool) string { return "" }

// operatorHome returns "" on platforms without rows in the table.
func operatorHome() string { return "" }
