// Command probe is what the attack tests run inside a sandbox: one attack by
// name, whose outcome is one line of JSON on standard output. It is static and
// uses raw system calls, so that no C library stands between it and the kernel.
package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
)

// said is the outcome. Done means that the attack worked.
type said struct {
	Done   bool   `json:"done"`
	Detail string `json:"detail"`
}

// attack tries one thing. An error means that it was stopped.
type attack func(args []string) (detail string, err error)

func main() {
	// What one attack does to its thread must be seen by its next line.
	runtime.LockOSThread()
	os.Exit(run(os.Args[1:]))
}

// run prints the outcome; as "status" it tells it by its exit code alone.
func run(args []string) int {
	silent := len(args) > 0 && args[0] == "status"
	if silent {
		args = args[1:]
	}
	if len(args) == 0 {
		return 2
	}
	try, ok := attacks()[args[0]]
	if !ok {
		fmt.Fprintln(os.Stderr, "no such attack:", args[0])
		return 2
	}
	detail, err := try(args[1:])
	if silent && err != nil {
		return 1
	} else if silent {
		return 0
	}
	s := said{Done: err == nil, Detail: detail}
	if err != nil {
		s.Detail = err.Error()
	}
	if json.NewEncoder(os.Stdout).Encode(s) != nil {
		return 2
	}
	return 0
}

func attacks() map[string]attack {
	all := map[string]attack{}
	for _, group := range []map[string]attack{
		writes(), reads(), links(), specials(), processes(), namespaces(), mounts(), descriptors(), terminals(), rings(), tables(),
		kernel(), remains(), storms(), memory(), hoards(), talks(), rawSockets(), servers(), secrets(),
	} {
		maps.Copy(all, group)
	}
	return all
}
