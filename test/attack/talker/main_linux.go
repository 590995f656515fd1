// Command talker runs inside a sandbox with a network: one attack by name. It is separate from
// probe, because a program with TLS needs more memory than some tests of limits permit.
package main

import (
	"maps"

	"palyra/test/attack/attempt"
)

type attack = attempt.Attack

const canary = attempt.Canary

func main() {
	all := map[string]attack{}
	for _, group := range []map[string]attack{talks(), sockets(), servers(), secrets()} {
		maps.Copy(all, group)
	}
	attempt.Main(all)
}
