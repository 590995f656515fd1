// Package attempt is shared by the programs that attack from inside a sandbox. Each of them makes
// one named attack, and prints the result as one line of JSON on standard output.
package attempt

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// Canary is the content of the files, variables and servers that an attack tries to reach.
const Canary = "palyra-canary"

// said is the result. Done is true if the attack succeeded.
type said struct {
	Done   bool   `json:"done"`
	Detail string `json:"detail"`
}

// Attack makes one attack. An error means that the attack was blocked.
type Attack func(args []string) (detail string, err error)

// Main makes the attack that the command line names, and exits.
func Main(attacks map[string]Attack) {
	// An attack may change the state of its thread for its next step, so it must stay on one
	// thread.
	runtime.LockOSThread()
	os.Exit(run(attacks, os.Args[1:]))
}

// run prints the result. For "status" it only returns it as the exit code.
func run(attacks map[string]Attack, args []string) int {
	silent := len(args) > 0 && args[0] == "status"
	if silent {
		args = args[1:]
	}
	if len(args) == 0 {
		return 2
	}
	try, ok := attacks[args[0]]
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
