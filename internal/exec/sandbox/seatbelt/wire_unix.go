//go:build darwin || linux

package seatbelt

// Descriptors that the helper finds open beside the standard ones. Both are
// gone when the tool starts.
const (
	wordFD   = 3 // from the runner: an order as JSON, then goWord
	reportFD = 4 // to the runner: a finding as JSON
)

// goWord lets the helper start the program.
const goWord = "go\n"

// order is everything that the helper is told.
type order struct {
	// Dir is the working directory, and Place what must be found there.
	Dir   string   `json:"dir"`
	Place identity `json:"place"`
	// Exec is the program, and File what must be found there.
	Exec    string   `json:"exec"`
	File    identity `json:"file"`
	Argv    []string `json:"argv"`
	Env     []string `json:"env"`
	Rlimits []rlimit `json:"rlimits"`
	Tries   tries    `json:"tries"`
}

// identity is one file in one state. Zero times are not compared.
type identity struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"`
	Ctime int64  `json:"ctime"`
}

// rlimit is one resource limit (setrlimit(2)).
type rlimit struct {
	Name     string `json:"name"`
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// tries are what must not be possible inside.
type tries struct {
	// Canary is a file of the daemon's that cannot be read or written.
	Canary string `json:"canary"`
	// Make is a name in the workspace that cannot be made.
	Make string `json:"make"`
	// Dial is host:port of a listener that cannot be reached; it is tried in
	// runs with an open network, too, where it can be.
	Dial string `json:"dial"`
}

// denials of what was tried: EPERM, which is Seatbelt's word, and no other
// failure.
type denied struct {
	Read  bool `json:"read"`
	Write bool `json:"write"`
	Make  bool `json:"make"`
	Dial  bool `json:"dial"`
}

// finding is one message of the helper's: what it read back, or why it stops.
type finding struct {
	// Failed names the step that failed; then only Error is set beside it.
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

// Steps whose failure the runner tells apart.
const (
	stepProgram   = "program"
	stepWorkspace = "workspace"
	stepExec      = "exec"
)
