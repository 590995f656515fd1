// Package inside is what passes between palyrad and palyra-init, the small
// program that runs before a tool does: the spec that palyrad hands over in a
// sealed memory file, and the report that palyra-init sends back once it has
// looked at what is really in force around it. It holds data only; both sides
// import it, so it must drag nothing in.
package inside

// Descriptors that palyra-init finds open. All are gone when the tool starts.
const (
	ControlFD = 3 // SOCK_SEQPACKET: reports out, the gate's word in
	SpecFD    = 4 // sealed memory file with a Spec as JSON
	HelperFD  = 5 // palyra-init itself
	ArgsFD    = 6 // sealed memory file with bubblewrap's arguments
	StatusFD  = 7 // pipe for bubblewrap's status documents
	ExtraFD   = 8 // first of those that a run adds
)

// Stages, the only argument of palyra-init.
const (
	StageOuter = "outer" // outside: mounts, control groups, identity; then bubblewrap
	StageInner = "inner" // inside: limits, capabilities, Landlock, seccomp; then the tool
	StageHold  = "hold"  // holds a user namespace open until standard input ends; reads no spec
)

// Go is the word by which palyrad opens the gate.
const Go = "go"

// MaxMessage bounds one message on the control socket, in bytes.
const MaxMessage = 64 << 10

// Spec is everything palyra-init is told. Nothing comes by environment or
// arguments.
type Spec struct {
	Outer Outer `json:"outer"`
	Inner Inner `json:"inner"`
}

// Outer prepares what bubblewrap cannot, as the user that palyrad runs as.
type Outer struct {
	// Parent is palyrad's process id; with another parent, palyrad is dead.
	Parent int `json:"parent"`
	// Join are descriptors of tasks files (cgroups(7), version 1) by which
	// the calling thread moves itself.
	Join []int `json:"join,omitempty"`
	// View, when not nil, is a detached mount to attach in a mount
	// namespace that was made for this run.
	View *View `json:"view,omitempty"`
	// UID and GID are taken on before bubblewrap starts; 0 keeps the present.
	UID int `json:"uid,omitempty"`
	GID int `json:"gid,omitempty"`
	// Hide are descriptors that bubblewrap must not inherit.
	Hide []int    `json:"hide,omitempty"`
	Exec string   `json:"exec"`
	Argv []string `json:"argv"`
}

// View is a detached mount on descriptor FD, to be attached at Dir/Name after
// Dir was covered by an empty file system.
type View struct {
	FD   int    `json:"fd"`
	Dir  string `json:"dir"`
	Name string `json:"name"`
}

// Inner is what has to be in force before the tool runs. Every layer that is
// asked for and fails ends palyra-init without running the tool.
type Inner struct {
	Exec string   `json:"exec"`
	File Identity `json:"file"`
	Argv []string `json:"argv"`
	Env  []string `json:"env"`
	// Workspace is what must be found at Dir.
	Workspace Identity `json:"workspace"`
	Dir       string   `json:"dir"`
	Rlimits   []Rlimit `json:"rlimits"`
	// DropCapabilities empties every set, the bounding set included.
	DropCapabilities bool      `json:"drop_capabilities"`
	NoNewPrivs       bool      `json:"no_new_privs"`
	Landlock         *Landlock `json:"landlock,omitempty"`
	// Seccomp is an array of struct sock_filter.
	Seccomp []byte `json:"seccomp,omitempty"`
}

// Identity is one file in one state. Zero times are not compared.
type Identity struct {
	Dev   uint64 `json:"dev"`
	Ino   uint64 `json:"ino"`
	Size  int64  `json:"size,omitempty"`
	Mtime int64  `json:"mtime,omitempty"`
	Ctime int64  `json:"ctime,omitempty"`
}

// Rlimit is one resource limit (setrlimit(2)).
type Rlimit struct {
	Name     string `json:"name"`
	Resource int    `json:"resource"`
	Soft     uint64 `json:"soft"`
	Hard     uint64 `json:"hard"`
}

// Access is what Landlock grants below a path.
type Access string

// The grants.
const (
	List    Access = "list"    // directories may be listed
	Read    Access = "read"    // files and directories may be read
	Execute Access = "execute" // Read, and files may be run
	Device  Access = "device"  // Read, and existing files may be written
	Full    Access = "full"    // everything but making devices
)

// Landlock asks for a ruleset of at most the given ABI.
type Landlock struct {
	ABI   int    `json:"abi"`
	Rules []Rule `json:"rules"`
}

// Rule grants access to a path and what is below it.
type Rule struct {
	Path   string `json:"path"`
	Access Access `json:"access"`
}

// Report is one message from palyra-init: what it read back, or why it stops.
type Report struct {
	// Failed names the step that failed; then nothing else is set.
	Failed string `json:"failed,omitempty"`
	Error  string `json:"error,omitempty"`
	Errno  int    `json:"errno,omitempty"`

	Namespaces map[string]uint64 `json:"namespaces,omitempty"`
	UID        int               `json:"uid"`
	GID        int               `json:"gid"`
	CapEff     string            `json:"cap_eff,omitempty"`
	CapBnd     string            `json:"cap_bnd,omitempty"`
	CapPrm     string            `json:"cap_prm,omitempty"`
	CapInh     string            `json:"cap_inh,omitempty"`
	CapAmb     string            `json:"cap_amb,omitempty"`
	NoNewPrivs bool              `json:"no_new_privs"`
	Seccomp    int               `json:"seccomp"`
	// LandlockABI is the ABI of a ruleset that a denied access has proved.
	LandlockABI int               `json:"landlock_abi"`
	Rlimits     map[string]uint64 `json:"rlimits,omitempty"`
}

// Steps whose failure palyrad tells apart.
const (
	StepExec       = "starting the program"
	StepExecutable = "checking the program"
	StepWorkspace  = "checking the workspace"
)
