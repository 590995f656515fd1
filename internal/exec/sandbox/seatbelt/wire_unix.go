//go:build darwin || linux

package seatbelt

import "palyra/internal/exec/sandbox/inside"

// Additional descriptors of the helper. Both are closed when the tool starts.
const (
	wordFD   = 3 // from the runner: an order as JSON, then goWord
	reportFD = 4 // to the runner: a finding as JSON
)

// goWord lets the helper start the program.
const goWord = "go\n"

// order contains all parameters of the helper.
type order struct {
	// Dir is the working directory, and Place its required identity.
	Dir   string          `json:"dir"`
	Place inside.Identity `json:"place"`
	// Exec is the program, and File its required identity.
	Exec    string          `json:"exec"`
	File    inside.Identity `json:"file"`
	Argv    []string        `json:"argv"`
	Env     []string        `json:"env"`
	Rlimits []inside.Rlimit `json:"rlimits"`
	Tries   tries           `json:"tries"`
}

// tries are actions that must be denied inside.
type tries struct {
	// Canary is a file of the daemon that must be neither readable nor writable.
	Canary string `json:"canary"`
	// Make is a name in the workspace that must not be creatable.
	Make string `json:"make"`
	// Dial is host:port of a listener that must not be reachable. It is also tried in runs with
	// an open network, where it is reachable.
	Dial string `json:"dial"`
}

// denied contains the results of the attempts. A field is true only if the attempt failed with
// EPERM, which Seatbelt returns.
type denied struct {
	Read  bool `json:"read"`
	Write bool `json:"write"`
	Make  bool `json:"make"`
	Dial  bool `json:"dial"`
}

// finding is one message of the helper: the verified state, or the reason for its failure.
type finding struct {
	// Failed names the failed step; in that case only Error is set as well.
	Failed string `json:"failed,omitempty"`
	Error  string `json:"error,omitempty"`

	Denied  denied            `json:"denied"`
	Rlimits map[string]uint64 `json:"rlimits"`
	// Leader is true for the first process of a session.
	Leader bool `json:"leader"`
	// Open are descriptors beyond the standard ones that the program would
	// inherit.
	Open []int `json:"open"`
	UID  int   `json:"uid"`
	GID  int   `json:"gid"`
}

// Steps whose failures the runner distinguishes.
const (
	stepProgram   = "program"
	stepWorkspace = "workspace"
	stepExec      = "exec"
)
