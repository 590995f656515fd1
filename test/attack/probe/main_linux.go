// Command probe runs inside a sandbox of the attack tests: one attack by name. It is static and
// uses raw system calls, so that no C library is between it and the kernel.
package main

import (
	"maps"

	"palyra/test/attack/attempt"
)

type attack = attempt.Attack

const canary = attempt.Canary

func main() { attempt.Main(attacks()) }

func attacks() map[string]attack {
	all := map[string]attack{}
	for _, group := range []map[string]attack{
		writes(), reads(), links(), specials(), processes(), namespaces(), mounts(), descriptors(), terminals(), rings(), tables(),
		kernel(), remains(), storms(), memory(), hoards(), shares(),
	} {
		maps.Copy(all, group)
	}
	return all
}
