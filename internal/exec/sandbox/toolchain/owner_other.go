//go:build !unix

package toolchain

// writable checks nothing on platforms without owners and modes.
func writable(string, bool) string { return "" }

// operatorHome is "" on platforms without rows in the table.
func operatorHome() string { return "" }
