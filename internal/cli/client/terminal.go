package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// sessionName returns the session name of a terminal. It does not identify the machine.
func sessionName(leader int, start, boot string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", leader, start, boot))
	return "terminal-" + hex.EncodeToString(sum[:5])
}

// startOf returns the start time of a process from /proc/<pid>/stat, in clock ticks since boot; ""
// for other text. The name of a program may contain spaces and parentheses, so fields are counted
// after its end.
func startOf(stat string) string {
	const field = 22 - 3 // the first field after the name is the third
	_, rest, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(rest)
	if len(fields) <= field {
		return ""
	}
	return fields[field]
}
