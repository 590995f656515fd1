// Package inside is what passes between palyrad and palyra-init, the small
// program that runs before a tool does. A Spec, in a sealed memory file, holds
// what is known when a sandbox is built. An Order, sent over the control socket,
// holds what one call decides; a sandbox that was built early waits for it. A
// Report is what palyra-init sends back once it has read back which layers are in
// force. The package holds data and its encoding. Both sides import it, so it
// imports next to nothing: palyra-init has to stay small.
package inside

import "strconv"

// Descriptors that palyra-init finds open. All are gone when the tool starts.
const (
	ControlFD = 3 // SOCK_SEQPACKET: reports out, the order and the go-ahead in
	SpecFD    = 4 // sealed memory file with a Spec
	HelperFD  = 5 // palyra-init itself
	ArgsFD    = 6 // sealed memory file with bubblewrap's arguments
	StatusFD  = 7 // pipe for bubblewrap's status documents
	ExtraFD   = 8 // first of those that a run adds
)

// Stages, the first argument of palyra-init.
const (
	StageOuter = "outer" // outside: mounts; then bubblewrap
	StageInner = "inner" // inside: capabilities, Landlock, limits, seccomp; then the tool
	StageHold  = "hold"  // holds a user namespace open until standard input ends; reads no spec
	StageProbe = "probe" // is the tool: tries what a layer forbids and prints what came of it
)

// DieFirst is the oom_score_adj of everything in a sandbox: the kernel ends it
// before any other process.
const DieFirst = 1000

// Go is the message with which palyrad lets the tool start.
const Go = "go"

// Bounds of one message on the control socket.
const (
	MaxMessage = 32 << 10 // bytes
	MaxFiles   = 8        // descriptors
)

// Spec is everything palyra-init is told when a sandbox is built. Nothing
// comes by environment or arguments.
type Spec struct {
	Outer  Outer
	Ground Ground
	Inner  Inner
}

// Outer makes the mounts that bubblewrap cannot make, in a user and a mount
// namespace that were made for this sandbox.
type Outer struct {
	// Parent is palyrad's process id; with another parent, palyrad is dead.
	Parent int
	// Mounts are detached mounts, to be attached at MountAt by position.
	Mounts []int
	// Workspace is mounted at Mountpoint.
	Workspace Source
	Overlay   *Overlay
	Pins      []Pin
	// Hide are descriptors that bubblewrap must not inherit.
	Hide []int
	Exec string
	Argv []string
}

// Where the outer stage mounts. The directory exists everywhere, every user
// may pass it, and an empty file system covers it.
const (
	MountDir   = "/run"
	Mountpoint = MountDir + "/workspace"
)

// MountAt is where the detached mount of a position is attached.
func MountAt(i int) string { return MountDir + "/" + strconv.Itoa(i) }

// Source is a directory outside. Where FD is not 0 it is a descriptor of a
// directory in one of the detached mounts; otherwise Path is opened without
// following links. Either way it must be the directory that Identity says.
type Source struct {
	FD       int
	Path     string
	Identity Identity
}

// Overlay are the writable layers over the workspace.
type Overlay struct {
	Upper Source
	Work  Source
}

// Pin keeps a path of a workspace that is written to directly from being
// renamed or, with ReadOnly, from being changed. Path is relative.
type Pin struct {
	Path     string
	ReadOnly bool
}

// Inner is what has to be in force around every tool of this sandbox. Every
// layer that is asked for and fails ends palyra-init without running the tool.
type Inner struct {
	// Parent, when not 0, is palyrad's process id in a sandbox without a
	// process namespace; with another parent, palyrad is dead.
	Parent int
	// Dir is the workspace. Workspace is what must be found there, unless it
	// is zero, and then palyrad compares what is reported.
	Dir       string
	Workspace Identity
	// First says that palyra-init is the first process of a process namespace
	// and stays as such beside the tool.
	First bool
	// Masks are files that must be /dev/null or missing.
	Masks []string
	// KeepDescriptors leaves strays open.
	KeepDescriptors bool
	// DropCapabilities empties every set, the bounding set included.
	DropCapabilities bool
	NoNewPrivs       bool
	Landlock         *Landlock
	// Network is nil when the tool reaches nothing, or has the host's network.
	Network *Network
}

// Order is what one call decides. Its message brings descriptors, of which the
// first, number 0, is a file with the order itself. Filter, Watched, Stdin, Bytes and
// Secrets are numbers of others among them; since 0 is taken, 0 means none.
type Order struct {
	// Self runs palyra-init itself as the tool, in StageProbe.
	Self bool
	// Exec is the program's path inside, and File what must be found there.
	Exec string
	File Identity
	Argv []string
	Env  []string
	// Cwd is a path inside.
	Cwd     string
	Rlimits []Rlimit
	// Stdin is what the tool reads.
	Stdin int
	// Bytes hold the operands, one after the other.
	Bytes    int
	Operands []Operand
	// Secrets hold the values of SecretFiles, one after the other, which are made in
	// SecretDir.
	Secrets     int
	SecretDir   string
	SecretFiles []SecretFile
	// Filter and Watched each hold a filter, an array of struct sock_filter.
	// Watched hands denied calls to a notifier (seccomp_unotify(2)); Filter,
	// which only denies, is installed where the kernel has no notifier.
	Filter  int
	Watched int
}

// Operand is a workspace file whose bytes are written into the copy of the
// workspace. Path is as the call names it, perhaps through links; At is where
// that led when the bytes were read, without links. Mtime, in nanoseconds, and
// Mode are what it keeps.
type Operand struct {
	Path  string
	At    string
	Size  int64
	Mode  uint32
	Mtime int64
}

// SecretFile is a file that the tool alone may read.
type SecretFile struct {
	Name string
	Size int
}

// Identity is one file in one state. What is zero is not compared.
type Identity struct {
	Dev   uint64
	Ino   uint64
	Size  int64
	Mtime int64
	Ctime int64
}

// Rlimit is one resource limit (setrlimit(2)).
type Rlimit struct {
	Name     string
	Resource int
	Soft     uint64
	Hard     uint64
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
	ABI   int
	Rules []Rule
	// DenyTCP denies connecting and listening by TCP; it needs ABI 4.
	DenyTCP bool
}

// Rule grants access to a path and what is below it.
type Rule struct {
	Path   string
	Access Access
}

// Report is one message from palyra-init: what the outer stage mounted, what
// the inner one read back, or why either stops.
type Report struct {
	// Failed is the step that failed; then only Error and Errno are set, too.
	Failed Step
	Error  string
	Errno  int

	// Mounted is set by the outer stage alone: the root of what it mounted.
	Mounted *Identity
	// Captured is set only in the message that brings the listeners: the
	// address families (ipv4, ipv6) of which a connection to one address was
	// tried and arrived at a listener.
	Captured []string

	Namespaces map[string]uint64
	UID        int
	GID        int
	CapEff     string
	CapBnd     string
	CapPrm     string
	CapInh     string
	CapAmb     string
	NoNewPrivs bool
	Seccomp    int
	// Filters are the system call filters in force, those that were there
	// before the sandbox included.
	Filters int
	// Watched is true when this message brings the descriptor of the seccomp
	// notifier.
	Watched bool
	// LandlockABI is the ABI of the ruleset in force, 0 unless an access that
	// it has to deny was tried and denied.
	LandlockABI int
	Rlimits     map[string]uint64
	// OOMScore is the oom_score_adj in force.
	OOMScore int
	// Workspace is the root of the workspace, and Overlay whether it lies on
	// an overlay file system.
	Workspace Identity
	Overlay   bool
	// Root are the entries of the root directory.
	Root []string
	// Session is the id of the session as the process namespace sees it; 0 is
	// a session that was made outside.
	Session int
	// Strays are descriptors beyond the first three that a tool would get.
	Strays int
	// Unmasked are those of Inner.Masks that show more than /dev/null.
	Unmasked []string
	// Environ is true when the environment of the first process can be read
	// and is not empty.
	Environ bool
	// Unpinned are the operands, by position, that could not be written.
	Unpinned []int
}

// Attempt is what palyra-init prints in StageProbe, where it runs in place of a
// tool: whether it could do what a layer forbids, and what happened, in words.
type Attempt struct {
	Happened bool
	Detail   string
}

// The attempts, the second argument of palyra-init in StageProbe. What follows
// in parentheses are further arguments.
const (
	TryFile       = "file"       // look at a file (path)
	TryMapping    = "mapping"    // be mapped as a process outside is (its uid_map)
	TryProcess    = "process"    // find a process outside (pid)
	TryConnect    = "connect"    // reach a service that has something to say (IPv4 address, port)
	TrySegment    = "segment"    // find shared memory (id)
	TryHostname   = "hostname"   // have the host's name (name)
	TryGroup      = "group"      // see the path of the control group
	TryRoot       = "root"       // be user 0
	TryCapability = "capability" // use CAP_SETPCAP
	TryPrivileges = "privileges" // be able to gain privileges by execve
	TryCall       = "call"       // make a system call that the filter denies
	TryWrite      = "write"      // write to a file that its owner may write to (path)
	TryMemory     = "memory"     // fill temporary files (mebibytes)
	TryFiles      = "files"      // open files (number)
	TryKernel     = "kernel"     // read what /proc tells of the host (path)
	TryStrays     = "strays"     // find descriptors of the daemon
	TryEnviron    = "environ"    // find a variable of the daemon's (name)
	TrySession    = "session"    // be in a session of the host
)
