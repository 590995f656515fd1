package client

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
)

// sessionName is the name of a terminal's session. It says nothing of the machine.
func sessionName(leader int, start, boot string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", leader, start, boot))
	return "terminal-" + hex.EncodeToString(sum[:5])
}

// startOf is when a process started, out of /proc/<pid>/stat, in clock ticks since
// the boot; "" for what is no such text. The name of a program may hold blanks and
// brackets, so that fields are counted behind its end.
func startOf(stat string) string {
	const field = 22 - 3 // the first field behind the name is the third
	_, rest, _ := strings.Cut(stat[strings.LastIndexByte(stat, ')')+1:], " ")
	fields := strings.Fields(rest)
	if len(fields) <= field {
		return ""
	}
	return fields[field]
}
