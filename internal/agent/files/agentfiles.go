// Package files knows where the agents that people run keep their settings, hooks and
// MCP servers, and which files none of their tools may write: those, and what the gateway
// stands on. It reads and writes nothing.
package files

import (
	"path"
	"path/filepath"
)

// Agent is one of the agents that Palyra knows.
type Agent string

// The agents.
const (
	ClaudeCode Agent = "claude-code"
	Codex      Agent = "codex"
	Cursor     Agent = "cursor"
	VSCode     Agent = "vscode"
)

// Hooked are the agents that take hooks.
var Hooked = []Agent{ClaudeCode, Codex}

// All are all agents.
var All = []Agent{ClaudeCode, Codex, Cursor, VSCode}

// Title is the agent's name for people.
func (a Agent) Title() string {
	switch a {
	case ClaudeCode:
		return "Claude Code"
	case Codex:
		return "Codex"
	case Cursor:
		return "Cursor"
	case VSCode:
		return "VS Code"
	}
	return string(a)
}

// Program is the command by which the agent is started.
func (a Agent) Program() string {
	switch a {
	case ClaudeCode:
		return "claude"
	case VSCode:
		return "code"
	default:
		return string(a)
	}
}

// Scope is for whom a file counts.
type Scope string

// The scopes, from the one that all others yield to.
const (
	Managed Scope = "managed"
	User    Scope = "user"
	Project Scope = "project"
	// Local is a project's, for one person alone.
	Local Scope = "local"
)

// Kind is what a file holds.
type Kind string

// The kinds.
const (
	Settings Kind = "settings"
	Hooks    Kind = "hooks"
	Servers  Kind = "servers"
)

// Format is how a file is written.
type Format string

// The formats: JSON with comments, and TOML.
const (
	JSON Format = "json"
	TOML Format = "toml"
)

// File is a file of an agent. One file may hold several kinds.
type File struct {
	Agent  Agent
	Scope  Scope
	Kinds  []Kind
	Path   string
	Format Format
	// Key is where the MCP servers stand in it, "" where it has none.
	Key string
	// Projects is where it has an object for each project, by directory, which has
	// servers under Key, too; "" where it has none.
	Projects string
}

// Has reports whether the file holds a kind.
func (f File) Has(k Kind) bool {
	for _, has := range f.Kinds {
		if has == k {
			return true
		}
	}
	return false
}

// Machine is what decides where files are.
type Machine struct {
	// Home is the home directory.
	Home string
	// OS is runtime.GOOS.
	OS string
	// Getenv looks a variable up.
	Getenv func(string) string
	// System is put before absolute paths of the system; tests set it.
	System string
}

// ClaudeDir is the directory of Claude Code's own files.
func (m Machine) ClaudeDir() string { return m.dir("CLAUDE_CONFIG_DIR", ".claude") }

// CodexDir is the directory of Codex's own files.
func (m Machine) CodexDir() string { return m.dir("CODEX_HOME", ".codex") }

func (m Machine) dir(variable, underHome string) string {
	if dir := m.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(m.Home, underHome)
}

// claudeFile is where Claude Code keeps the servers of a user.
func (m Machine) claudeFile() string {
	if dir := m.Getenv("CLAUDE_CONFIG_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".claude.json")
	}
	return filepath.Join(m.Home, ".claude.json")
}

// claudeManaged is where an administrator's settings of Claude Code are.
func (m Machine) claudeManaged() string {
	switch m.OS {
	case "darwin":
		return m.system("/Library/Application Support/ClaudeCode")
	case "windows":
		return m.system(`C:\Program Files\ClaudeCode`)
	}
	return m.system("/etc/claude-code")
}

// codexManaged is where an administrator's settings of Codex are.
func (m Machine) codexManaged() string {
	if m.OS == "windows" {
		return m.system(`C:\ProgramData\OpenAI\Codex`)
	}
	return m.system("/etc/codex")
}

func (m Machine) system(dir string) string { return m.System + dir }

// codeUser is the directory of VS Code's user settings.
func (m Machine) codeUser() string {
	switch m.OS {
	case "darwin":
		return filepath.Join(m.Home, "Library", "Application Support", "Code", "User")
	case "windows":
		if dir := m.Getenv("APPDATA"); dir != "" {
			return filepath.Join(dir, "Code", "User")
		}
		return filepath.Join(m.Home, "AppData", "Roaming", "Code", "User")
	}
	if dir := m.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "Code", "User")
	}
	return filepath.Join(m.Home, ".config", "Code", "User")
}

// ManagedDropIn is the file of Claude Code's managed settings that is Palyra's alone.
func (m Machine) ManagedDropIn() string {
	return filepath.Join(m.claudeManaged(), "managed-settings.d", "50-palyra.json")
}

// Files are the files of an agent, those of the project in a directory included, unless
// it is "". They need not exist.
func (m Machine) Files(a Agent, project string) []File {
	var list []File
	add := func(scope Scope, name string, format Format, key string, kinds ...Kind) {
		list = append(list, File{Agent: a, Scope: scope, Path: name, Format: format, Key: key, Kinds: kinds})
	}
	in := func(scope Scope, name string, format Format, key string, kinds ...Kind) {
		if project != "" {
			add(scope, filepath.Join(project, filepath.FromSlash(name)), format, key, kinds...)
		}
	}
	switch a {
	case ClaudeCode:
		add(Managed, filepath.Join(m.claudeManaged(), "managed-settings.json"), JSON, "", Settings, Hooks)
		add(Managed, m.ManagedDropIn(), JSON, "", Settings, Hooks)
		add(Managed, filepath.Join(m.claudeManaged(), "managed-mcp.json"), JSON, "mcpServers", Servers)
		add(User, filepath.Join(m.ClaudeDir(), "settings.json"), JSON, "", Settings, Hooks)
		add(User, m.claudeFile(), JSON, "mcpServers", Servers)
		list[len(list)-1].Projects = "projects"
		in(Project, ".claude/settings.json", JSON, "", Settings, Hooks)
		in(Local, ".claude/settings.local.json", JSON, "", Settings, Hooks)
		in(Project, ".mcp.json", JSON, "mcpServers", Servers)
	case Codex:
		add(Managed, filepath.Join(m.codexManaged(), "requirements.toml"), TOML, "mcp_servers", Settings, Hooks, Servers)
		add(Managed, filepath.Join(m.codexManaged(), "config.toml"), TOML, "mcp_servers", Settings, Hooks, Servers)
		add(User, filepath.Join(m.CodexDir(), "config.toml"), TOML, "mcp_servers", Settings, Servers)
		add(User, filepath.Join(m.CodexDir(), "hooks.json"), JSON, "", Hooks)
		in(Project, ".codex/config.toml", TOML, "mcp_servers", Settings, Servers)
		in(Project, ".codex/hooks.json", JSON, "", Hooks)
	case Cursor:
		add(User, filepath.Join(m.Home, ".cursor", "mcp.json"), JSON, "mcpServers", Servers)
		add(User, filepath.Join(m.Home, ".cursor", "hooks.json"), JSON, "", Hooks)
		in(Project, ".cursor/mcp.json", JSON, "mcpServers", Servers)
		in(Project, ".cursor/hooks.json", JSON, "", Hooks)
	case VSCode:
		add(User, filepath.Join(m.codeUser(), "mcp.json"), JSON, "servers", Servers)
		in(Project, ".vscode/mcp.json", JSON, "servers", Servers)
	}
	return list
}

// Watchable reports whether a path is a file that an installation writes: palyrad reads
// no other on somebody's word.
func Watchable(name string) bool {
	if !filepath.IsAbs(name) || filepath.Clean(name) != name {
		return false
	}
	switch path.Base(filepath.ToSlash(name)) {
	case "settings.json", "settings.local.json", "managed-settings.json", "managed-mcp.json", "50-palyra.json", ".claude.json", ".mcp.json", "mcp.json", "hooks.json", "config.toml", "requirements.toml":
		return true
	}
	return false
}
