package tool

// Elements of ShellFacts.Commands that stand for something else than a name, so
// that a rule which allows some names allows neither unless it lists them.
const (
	// ShellUnknown is there where the line is not known as a whole.
	ShellUnknown = "?"
	// ShellWrites is there where a redirect writes to a file.
	ShellWrites = ">"
)

// Sources of a command in a shell line, in addition to the origins of ExecFacts.
const (
	// OriginShell is a command that the shell carries out itself.
	OriginShell = "shell"
	// OriginLocal is for programs added to the system by hand, below /usr/local.
	OriginLocal = "local"
	// OriginUnknown is for commands that are not found or not known.
	OriginUnknown = "unknown"
)

// ShellFacts are the facts that the gateway derives from a shell line.
type ShellFacts struct {
	// Dialect is the language that the line was read in: posix or bash.
	Dialect string `json:"dialect"`
	// Claimed is true for a line run by another program, which only claims that it is this line in
	// this dialect.
	Claimed bool `json:"claimed,omitempty"`
	// Parsed is false for a line that cannot be read. Commands then are all that
	// its words may name.
	Parsed bool `json:"parsed"`
	// Known is true where nothing in the line is left to find out when it runs: it
	// is parsed, not Dynamic, has nothing Special, and is not Claimed.
	Known bool `json:"known"`
	// Dynamic is true where a word is expanded.
	Dynamic bool `json:"dynamic,omitempty"`
	// Special are the constructs by which a line does what no list of its commands
	// shows, sorted, of those below.
	Special []string `json:"special,omitempty"`
	// Commands are the names of all commands, without directories, and as they are
	// written where that is something else; ShellUnknown, ShellWrites. Sorted.
	Commands []string `json:"commands"`
	// Subcommands are the names with the first argument of each command: "git push";
	// "git ?" where that is an option, or is not certain.
	Subcommands []string `json:"subcommands"`
	// Lines are the commands whole, quoted; ShellUnknown where one is not known, or
	// all are too long.
	Lines []string `json:"lines"`
	// Origins say where the commands come from, sorted.
	Origins []string `json:"origins"`
	// Reads and Writes are the targets of redirects, sorted; ShellUnknown for one
	// that is not known.
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
}

// What ShellFacts.Special can hold.
const (
	ShellAlias      = "alias"       // a name comes to mean something else
	ShellArithmetic = "arithmetic"  // evaluated, with what that may run
	ShellAssignment = "assignment"  // a variable gets a value, such as PATH
	ShellBuiltin    = "builtin"     // a builtin of the shell that is none of the harmless ones
	ShellCoprocess  = "coprocess"   // a command that runs concurrently with the others, joined to them by a variable
	ShellEval       = "eval"        // text is run as code
	ShellFunction   = "function"    // a function, which may be called like a program
	ShellInlineCode = "inline_code" // an interpreter gets code in its arguments, or by standard input
	ShellNetwork    = "network"     // a redirect to a host: /dev/tcp of bash
	ShellOther      = "other"       // syntax unknown to the gateway
	ShellShell      = "shell"       // another shell is started
	ShellSource     = "source"      // a file is run as code
	ShellTrap       = "trap"        // code for later
	ShellWrapper    = "wrapper"     // a program that starts another one: env, xargs, find -exec
)

// ShellSpecials lists them all.
var ShellSpecials = []string{
	ShellAlias, ShellArithmetic, ShellAssignment, ShellBuiltin, ShellCoprocess, ShellEval, ShellFunction, ShellInlineCode, ShellNetwork, ShellOther,
	ShellShell, ShellSource, ShellTrap, ShellWrapper,
}
