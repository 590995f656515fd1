//go:build unix && !linux

package trusted

func readOnly(string) bool { return false }
