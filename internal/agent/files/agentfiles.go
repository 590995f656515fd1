// Package files defines the locations of agents' settings, hooks and MCP servers. It also
// defines the files that no tool of an agent may write: these files, and the files of the
// gateway. It does not access the files.
package files

import (
	"path"
	"path/filepath"
)

// Agent is one of the supported agents.
type Agent string

// The agents.
const (
	ClaudeCode Agent = "claude-code"
	Codex      Agent = "codex"
	Cursor     Agent = "cursor"
	VSCode     Agent = "vscode"
)

// Hooked are the agents that support hooks.
var Hooked = []Agent{ClaudeCode, Codex}

// All lists all agents.
var All = []Agent{ClaudeCode, Codex, Cursor, VSCode}

// Title returns the agent's display name.
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

// Program returns the command that starts the agent.
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

// Scope is the scope of a settings file.
type Scope string

// The scopes, in increasing precedence.
const (
	Managed Scope = "managed"
	User    Scope = "user"
	Project Scope = "project"
	// Local is a project's file for one user alone.
	Local Scope = "local"
)

// Kind is a kind of content in a file.
type Kind string

// The kinds.
const (
	Settings Kind = "settings"
	Hooks    Kind = "hooks"
	Servers  Kind = "servers"
)

// Format is the format of a file.
type Format string

// The formats: JSON with comments, and TOML.
const (
	JSON Format = "json"
	TOML Format = "toml"
)

// File is a file of an agent. One file may contain several kinds.
type File struct {
	Agent  Agent
	Scope  Scope
	Kinds  []Kind
	Path   string
	Format Format
	// Key is the key of the MCP servers in the file, "" for none.
	Key string
	// Projects is the key of an object with one object for each project directory; "" for none.
	// Each of these objects also has servers under Key.
	Projects string
}

// Has reports whether the file contains a kind.
func (f File) Has(k Kind) bool {
	for _, has := range f.Kinds {
		if has == k {
			return true
		}
	}
	return false
}

// Machine determines the locations of files.
type Machine struct {
	// Home is the home directory.
	Home string
	// OS is runtime.GOOS.
	OS string
	// Getenv returns an environment variable.
	Getenv func(string) string
	// System is the prefix of absolute system paths; tests set it.
	System string
}

// ClaudeDir returns the directory of Claude Code's own files.
func (m Machine) ClaudeDir() string { return m.dir("CLAUDE_CONFIG_DIR", ".claude") }

// CodexDir returns the directory of Codex's own files.
func (m Machine) CodexDir() string { return m.dir("CODEX_HOME", ".codex") }

func (m Machine) dir(variable, underHome string) string {
	if dir := m.Getenv(variable); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return filepath.Join(m.Home, underHome)
}

// claudeFile returns the file of a user's servers in Claude Code.
func (m Machine) claudeFile() string {
	if dir := m.Getenv("CLAUDE_CONFIG_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, ".claude.json")
	}
	return filepath.Join(m.Home, ".claude.json")
}

// claudeManaged returns the directory of an administrator's settings of Claude Code.
func (m Machine) claudeManaged() string {
	switch m.OS {
	case "darwin":
		return m.system("/Library/Application Support/ClaudeCode")
	case "windows":
		return m.system(`C:\Program Files\ClaudeCode`)
	}
	return m.system("/etc/claude-code")
}

// codexManaged returns the directory of an administrator's settings of Codex.
func (m Machine) codexManaged() string {
	if m.OS == "windows" {
		return m.system(`C:\ProgramData\OpenAI\Codex`)
	}
	return m.system("/etc/codex")
}

func (m Machine) system(dir string) string { return m.System + dir }

// codeUser returns the directory of VS Code's user settings.
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

// ManagedDropIn returns the file of Claude Code's managed settings that only Palyra writes.
func (m Machine) ManagedDropIn() string {
	return filepath.Join(m.claudeManaged(), "managed-settings.d", "50-palyra.json")
}

// Files returns the files of an agent. They include the files of the project in a directory,
// unless project is "". The files need not exist.
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

// Watchable reports whether a path is a file that an installation writes: palyrad must not read
// other files on a client's request.
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
