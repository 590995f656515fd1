// Package attempt is what the programs have in common that attack from inside a
// sandbox: each does one thing by name, and says in one line of JSON on standard
// output what came of it.
package attempt

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// Canary is the word that files, variables and servers of the tests hold.
const Canary = "palyra-canary"

// said is the outcome. Done means that the attack worked.
type said struct {
	Done   bool   `json:"done"`
	Detail string `json:"detail"`
}

// Attack tries one thing. An error means that it was stopped.
type Attack func(args []string) (detail string, err error)

// Main carries out the attack that the command line names, and ends the
// program.
func Main(attacks map[string]Attack) {
	// What one attack does to its thread must be seen by its next line.
	runtime.LockOSThread()
	os.Exit(run(attacks, os.Args[1:]))
}

// run prints the outcome; as "status" it tells it by its exit code alone.
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
