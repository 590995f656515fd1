//go:build !unix

package toolchain

// writable asks nothing where owners and modes say nothing of who may write.
func writable(string, bool) string { return "" }

// operatorHome is "" where the table has no row.
func operatorHome() string { return "" }
