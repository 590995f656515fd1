// Package inside defines the messages between palyrad and palyra-init, the small program that
// runs before a tool does. A Spec, in a sealed memory file, holds the parameters that are known
// when a sandbox is built. An Order, sent over the control socket, holds the parameters of one
// call; a prepared sandbox waits for it. A Report is sent by palyra-init after it has verified
// the layers in force. The package contains only data and its encoding. It has very few imports,
// because both sides import it and palyra-init must stay small.
package inside

import "strconv"

// Descriptors that are open when palyra-init starts. All are closed when the tool starts. They
// are inherited, and none is sent over the control socket, because the kernel limits the
// descriptors in flight of all processes of a user together (unix(7), ETOOMANYREFS): one program
// could otherwise stop every other sandbox of its user. The memory files of a call are empty
// until the call arrives; palyrad fills and seals them before it sends Ordered.
const (
	ControlFD = 3  // SOCK_SEQPACKET: reports out, the order and the go-ahead in
	SpecFD    = 4  // sealed memory file with a Spec
	HelperFD  = 5  // palyra-init itself
	OrderFD   = 6  // memory file of the call: an Order
	StdinFD   = 7  // standard input of the tool: a memory file of the call, or a session's file
	BytesFD   = 8  // memory file of the call: the operands, one after the other
	SecretsFD = 9  // memory file of the call: the values of its secret files, one after the other
	FilterFD  = 10 // sealed memory file with a filter that denies
	WatchedFD = 11 // sealed memory file with a filter that passes denied calls to a notifier
	SysctlFD  = 12 // the directory /proc/sys/user, for UserLimits
	ArgsFD    = 13 // sealed memory file with bubblewrap's arguments
	StatusFD  = 14 // pipe for bubblewrap's status documents
	ExtraFD   = 15 // first of the additional descriptors of a run

	LastFD = SysctlFD // last of the descriptors of palyra-init itself
)

// Stages, the first argument of palyra-init.
const (
	StageOuter = "outer" // outside: mounts; then bubblewrap
	StageInner = "inner" // inside: capabilities, Landlock, limits, seccomp; then the tool
	StageHold  = "hold"  // holds a user namespace open until standard input ends; reads no spec
	StageProbe = "probe" // runs as the tool: tries what a layer forbids and prints the result
)

// DieFirst is the oom_score_adj of all processes in a sandbox: the kernel kills them before any
// other process.
const DieFirst = 1000

// The messages from palyrad.
const (
	Ordered = "order" // the memory files of the call are complete
	Go      = "go"    // starts the tool
)

// MaxMessage is the limit of one message on the control socket, in bytes.
const MaxMessage = 32 << 10

// Spec contains the parameters of palyra-init when a sandbox is built. Its parameters
// are not passed by environment or arguments.
type Spec struct {
	Outer  Outer
	Ground Ground
	Inner  Inner
}

// Outer lists the mounts that bubblewrap cannot make. They are made in a user and a mount
// namespace for this sandbox.
type Outer struct {
	// Parent is palyrad's process id; another parent means that palyrad is dead.
	Parent int
	// Mounts are detached mounts, to be attached at MountAt by position.
	Mounts []int
	// Workspace is mounted at Mountpoint.
	Workspace Source
	Overlay   *Overlay
	Pins      []Pin
	// Layered are mounted at LayeredAt of their position, read-only and as the only layer with
	// content.
	Layered []Source
	// Terminals mounts an empty set of pseudo terminals at TerminalDir.
	Terminals bool
	// Hide are descriptors that bubblewrap must not inherit.
	Hide []int
	Exec string
	Argv []string
}

// Mount points of the outer stage. The directory MountDir exists everywhere, and every user may
// enter it. An empty file system covers it.
const (
	MountDir   = "/run"
	Mountpoint = MountDir + "/workspace"
)

// MountAt returns the mount point of the detached mount at a position.
func MountAt(i int) string { return MountDir + "/" + strconv.Itoa(i) }

// The file system of pseudo terminals of one run. The kernel's limit of terminals applies to all
// users together, so that each run may have only some.
const (
	TerminalDir     = MountDir + "/terminals"
	TerminalOptions = "newinstance,ptmxmode=0666,mode=0600,max=64"
)

// LayeredAt returns the mount point of the layered directory at a position.
func LayeredAt(i int) string { return MountDir + "/layered-" + strconv.Itoa(i) }

// EmptyLayer is an empty directory: an overlay without a writable layer needs two others.
const EmptyLayer = MountDir + "/empty"

// LayeredOptions returns the mount options of a layered directory, which is named by a path without
// colons and commas. Inode numbers are those of the directory's own files.
func LayeredOptions(dir string) string {
	return "userxattr,xino=off,lowerdir=" + dir + ":" + EmptyLayer
}

// Source is a directory outside. If FD is not 0 it is a descriptor of a directory in one of the
// detached mounts; otherwise Path is opened without following links. In both cases the directory
// must have the given Identity.
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

// Pin protects a path in a workspace with direct writes from being renamed or, with ReadOnly,
// from being changed. Path is relative.
type Pin struct {
	Path     string
	ReadOnly bool
}

// Inner lists the layers that must be in force for every tool of this sandbox. If a requested
// layer fails, palyra-init exits without running the tool.
type Inner struct {
	// Parent, if not 0, is palyrad's process id in a sandbox without a process namespace; another
	// parent means that palyrad is dead.
	Parent int
	// Dir is the workspace. Workspace is the required identity of that directory. If it is zero,
	// palyrad compares the reported identity instead.
	Dir       string
	Workspace Identity
	// First reports that palyra-init is the first process of a process namespace and keeps
	// running next to the tool.
	First bool
	// Masks are files that must be /dev/null or missing.
	Masks []string
	// Pass sends descriptors with the reports, because palyrad may not take them (Report.Files).
	Pass bool
	// KeepDescriptors keeps stray descriptors open.
	KeepDescriptors bool
	// DropCapabilities empties every set, including the bounding set.
	DropCapabilities bool
	NoNewPrivs       bool
	Landlock         *Landlock
	// Network is nil if palyrad answers no names and connections, or if the tool uses the host's
	// network.
	Network *Network
	// UserLimits is nil in a sandbox without its own user namespace.
	UserLimits *UserLimits
}

// UserLimits limits the sandbox's user namespace (namespaces(7), /proc/sys/user). The kernel counts
// these objects for the user of palyrad as well, so that a tool without limits could use up those
// of all other programs of that user.
type UserLimits struct {
	// Outside is the inode number of palyrad's user namespace, which must be a different one.
	Outside uint64
	// Limits are limits by name of the file.
	Limits map[string]uint64
}

// Order contains the parameters of one call, in the file OrderFD.
type Order struct {
	// Self runs palyra-init itself as the tool, in StageProbe.
	Self bool
	// Exec is the program's path inside, and File its required identity.
	Exec string
	File Identity
	Argv []string
	Env  []string
	// Cwd is a path inside.
	Cwd     string
	Rlimits []Rlimit
	// Stdin makes StdinFD the tool's standard input.
	Stdin bool
	// Operands are in BytesFD.
	Operands []Operand
	// SecretFiles are created in SecretDir. Their values are in SecretsFD.
	SecretDir   string
	SecretFiles []SecretFile
	// Filter installs the filter in WatchedFD, which passes denied calls to a notifier
	// (seccomp_unotify(2)), or the filter in FilterFD if the kernel has no notifier. Both are arrays
	// of struct sock_filter.
	Filter bool
}

// Operand is a workspace file whose bytes are written into the copy of the workspace. Path is
// the name in the call, possibly through links. At is the path without links when the bytes
// were read. Mtime, in nanoseconds, and Mode are preserved.
type Operand struct {
	Path  string
	At    string
	Size  int64
	Mode  uint32
	Mtime int64
}

// SecretFile is a file that only the tool may read.
type SecretFile struct {
	Name string
	Size int
}

// Identity identifies one state of a file. Zero fields are not compared.
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

// Access is the access that Landlock grants below a path.
type Access string

// The grants.
const (
	List    Access = "list"    // directories may be listed
	Read    Access = "read"    // files and directories may be read
	Execute Access = "execute" // Read, and files may be run
	Device  Access = "device"  // Read, and existing files may be written
	// Terminal is Device with the requests of terminals.
	Terminal Access = "terminal"
	// Store is Full without making sockets, for directories that several runs share.
	Store Access = "store"
	Full  Access = "full" // everything except making devices
)

// Landlock requests a ruleset of at most the given ABI.
type Landlock struct {
	ABI   int
	Rules []Rule
	// DenyTCP denies connecting and listening by TCP; it requires ABI 4.
	DenyTCP bool
}

// Rule grants access to a path and everything below it.
type Rule struct {
	Path   string
	Access Access
}

// Report is one message from palyra-init: the mounts of the outer stage, the verified layers of
// the inner stage, or the reason why either stops.
type Report struct {
	// Failed is the failed step; in that case only Error and Errno are set as well.
	Failed Step
	Error  string
	Errno  int

	// Files are descriptors of palyra-init that palyrad takes by pidfd_getfd(2). They stay open
	// until the tool starts.
	Files []int

	// Mounted is set by the outer stage only: the root of its mount.
	Mounted *Identity
	// Captured is set only in the message with the listeners: the address families (ipv4, ipv6)
	// for which a test connection reached a listener.
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
	// Filters is the number of system call filters in force, including those from before the
	// sandbox.
	Filters int
	// Watched is true if this message offers the descriptor of the seccomp notifier.
	Watched bool
	// LandlockABI is the ABI of the ruleset in force. It is 0 unless a forbidden access was tried
	// and denied.
	LandlockABI int
	Rlimits     map[string]uint64
	// OOMScore is the oom_score_adj in force.
	OOMScore int
	// Workspace is the root of the workspace, and Overlay reports whether it is on an overlay
	// file system.
	Workspace Identity
	Overlay   bool
	// Root are the entries of the root directory.
	Root []string
	// Session is the id of the session in the process namespace, 0 if the session is from outside.
	Session int
	// Strays are descriptors beyond the first three that a tool would inherit.
	Strays int
	// Unmasked are the files of Inner.Masks that show other content than /dev/null.
	Unmasked []string
	// Environ is true if the environment of the first process is readable and not empty.
	Environ bool
	// Unpinned are the operands, by position, that could not be written.
	Unpinned []int
}

// Attempt is the output of palyra-init in StageProbe, where it runs instead of a tool. It
// reports whether an action that a layer forbids succeeded, and describes the result.
type Attempt struct {
	Happened bool
	Detail   string
}

// The attempts, the second argument of palyra-init in StageProbe. Additional arguments are in
// parentheses.
const (
	TryFile       = "file"       // access a file (path)
	TryMapping    = "mapping"    // have the user mapping of an outside process (its uid_map)
	TryProcess    = "process"    // find a process outside (pid)
	TryConnect    = "connect"    // reach a service that sends a greeting (IPv4 address, port)
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
	TryKernel     = "kernel"     // read host data from /proc (path)
	TryStrays     = "strays"     // find descriptors of the daemon
	TryEnviron    = "environ"    // find a variable of the daemon (name)
	TrySession    = "session"    // be in a session of the host
)
