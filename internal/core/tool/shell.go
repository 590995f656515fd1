package tool

// Elements of ShellFacts.Commands that are not names. A rule that allows certain names does not
// allow these elements unless it lists them.
const (
	// ShellUnknown is an element if not all commands of the line are known.
	ShellUnknown = "?"
	// ShellWrites is an element if a redirect writes to a file.
	ShellWrites = ">"
)

// Sources of a command in a shell line, in addition to the origins of ExecFacts.
const (
	// OriginShell is for commands that the shell executes itself.
	OriginShell = "shell"
	// OriginLocal is for programs added to the system by hand, below /usr/local.
	OriginLocal = "local"
	// OriginUnknown is for commands that are not found or not known.
	OriginUnknown = "unknown"
)

// ShellFacts are the facts that the gateway derives from a shell line.
type ShellFacts struct {
	// Dialect is the language as which the line was parsed: posix or bash.
	Dialect string `json:"dialect"`
	// Claimed is true for a line run by another program, which only claims that it is this line in
	// this dialect.
	Claimed bool `json:"claimed,omitempty"`
	// Parsed is false for a line that cannot be parsed. Commands then lists all commands that its
	// words may name.
	Parsed bool `json:"parsed"`
	// Known is true if the effect of the line does not depend on information at run time: it is
	// Parsed, not Dynamic, not Claimed, and Special is empty.
	Known bool `json:"known"`
	// Dynamic is true if a word is expanded.
	Dynamic bool `json:"dynamic,omitempty"`
	// Special are the constructs with effects that the list of commands does not show, as defined
	// below, sorted.
	Special []string `json:"special,omitempty"`
	// Commands are the names of all commands, without directories, or as written if it is not a
	// name. They include ShellUnknown and ShellWrites. Sorted.
	Commands []string `json:"commands"`
	// Subcommands are the names with the first argument of each command: "git push". It is "git ?"
	// if the argument is an option or uncertain.
	Subcommands []string `json:"subcommands"`
	// Lines are the whole commands, quoted. They include ShellUnknown if one is not known, and
	// contain only ShellUnknown if they are too long.
	Lines []string `json:"lines"`
	// Origins are the sources of the commands, sorted.
	Origins []string `json:"origins"`
	// Reads and Writes are the targets of redirects, sorted, with ShellUnknown for an unknown
	// target.
	Reads  []string `json:"reads,omitempty"`
	Writes []string `json:"writes,omitempty"`
}

// The values of ShellFacts.Special.
const (
	ShellAlias      = "alias"       // a name gets another meaning
	ShellArithmetic = "arithmetic"  // evaluated, with any commands in it
	ShellAssignment = "assignment"  // a variable gets a value, such as PATH
	ShellBuiltin    = "builtin"     // a builtin of the shell that is not harmless
	ShellCoprocess  = "coprocess"   // a command that runs concurrently with the others, joined to them by a variable
	ShellEval       = "eval"        // text is run as code
	ShellFunction   = "function"    // a function, which may be called like a program
	ShellInlineCode = "inline_code" // an interpreter gets code in its arguments, or by standard input
	ShellNetwork    = "network"     // a redirect to a host: /dev/tcp of bash
	ShellOther      = "other"       // syntax unknown to the gateway
	ShellShell      = "shell"       // another shell is started
	ShellSource     = "source"      // a file is run as code
	ShellTrap       = "trap"        // code that runs later
	ShellWrapper    = "wrapper"     // a program that starts another one: env, xargs, find -exec
)

// ShellSpecials lists all special constructs.
var ShellSpecials = []string{
	ShellAlias, ShellArithmetic, ShellAssignment, ShellBuiltin, ShellCoprocess, ShellEval, ShellFunction, ShellInlineCode, ShellNetwork, ShellOther,
	ShellShell, ShellSource, ShellTrap, ShellWrapper,
}
