package files

import (
	"path/filepath"
	"slices"
	"strings"

	"palyra/internal/exec/workspace"
)

// Why is the reason why a file is guarded.
type Why string

// The reasons.
const (
	// AgentSettings can rewrite, disable or bypass a hook, or start programs.
	AgentSettings Why = "agent_settings"
	// GatewayState is palyrad's state: keys, the journal, the socket.
	GatewayState Why = "gateway_state"
	// GatewayService starts palyrad, or is one of its programs.
	GatewayService Why = "gateway_service"
	// GatewayConfig is the configuration or a policy.
	GatewayConfig Why = "gateway_config"
)

// Guarded is a path that no tool of a hooked agent may write: a file, or a directory with
// everything below it.
type Guarded struct {
	// Path is absolute; with Anywhere it is a relative path in any directory.
	Path     string
	Anywhere bool
	// Except are names in the directory that are not guarded.
	Except []string
	Why    Why
}

// anywhere are files of agents that apply in any directory in which an agent is started, as
// lower-case names.
var anywhere = []string{
	".claude.json", ".mcp.json", ".codex", ".cursor", ".vscode/mcp.json", ".vscode/tasks.json",
}

// Gateway contains the locations of a gateway's files; "" is none.
type Gateway struct {
	StateDir, Config, Policies string
	// Programs are palyrad, palyra and palyra-hook.
	Programs []string
}

// Guards returns all guarded paths for a user's agents and for a gateway.
func (m Machine) Guards(g Gateway) []Guarded {
	var list []Guarded
	add := func(why Why, paths ...string) {
		for _, p := range paths {
			if filepath.IsAbs(p) {
				list = append(list, Guarded{Path: filepath.Clean(p), Why: why})
			}
		}
	}
	for _, dir := range []Guarded{{Path: m.ClaudeDir()}, {Path: ".claude", Anywhere: true}} {
		// Claude Code's own tools write here: plans, its notes on projects, and git worktrees. In a
		// worktree, the files of an agent apply as in any directory.
		dir.Except, dir.Why = []string{"plans", "projects", "worktrees"}, AgentSettings
		list = append(list, dir)
	}
	add(AgentSettings, m.claudeManaged(), m.codexManaged(), m.claudeFile(), m.CodexDir(), filepath.Join(m.codeUser(), "mcp.json"), filepath.Join(m.codeUser(), "tasks.json"))
	for _, name := range anywhere {
		list = append(list, Guarded{Path: name, Anywhere: true, Why: AgentSettings})
	}
	add(GatewayState, g.StateDir, m.ClientState())
	add(GatewayConfig, g.Config, g.Policies)
	add(GatewayService, g.Programs...)
	add(GatewayService, m.Services()...)
	return list
}

// ServiceName is the name of palyrad's service, and Label the one for launchd.
const (
	ServiceName = "palyrad"
	Label       = "dev.palyra.palyrad"
)

// ClientState returns palyra's state directory, which contains the known gateways and the
// installations.
func (m Machine) ClientState() string {
	if dir := m.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "palyra-cli")
	}
	return filepath.Join(m.Home, ".local", "state", "palyra-cli")
}

// UnitDir returns the unit directory of the user's service manager.
func (m Machine) UnitDir() string {
	if dir := m.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "systemd", "user")
	}
	return filepath.Join(m.Home, ".config", "systemd", "user")
}

// LaunchAgent returns palyrad's launchd file.
func (m Machine) LaunchAgent() string {
	return filepath.Join(m.Home, "Library", "LaunchAgents", Label+".plist")
}

// Services returns the files that start palyrad.
func (m Machine) Services() []string {
	if m.OS == "darwin" {
		return []string{m.LaunchAgent(), "/Library/LaunchDaemons/" + Label + ".plist"}
	}
	var list []string
	for _, dir := range []string{m.UnitDir(), "/etc/systemd/system", "/etc/systemd/user"} {
		for _, unit := range []string{ServiceName + ".service", ServiceName + ".socket"} {
			list = append(list, filepath.Join(dir, unit), filepath.Join(dir, unit+".d"))
		}
	}
	return list
}

// Match returns the first guard that matches a path, which is absolute and has no links as far as
// the caller can determine. Names are compared as the least strict file system would.
func Match(list []Guarded, path string) (Guarded, bool) {
	at := folded(path)
	for _, g := range list {
		is := folded(g.Path)
		for i := range at {
			if (i == 0 || g.Anywhere) && begins(at[i:], is) && !g.excepts(at[i+len(is):]) {
				return g, true
			}
		}
	}
	return Guarded{}, false
}

func (g Guarded) excepts(below []string) bool {
	return len(below) > 1 && slices.Contains(g.Except, below[0])
}

func begins(path, start []string) bool {
	return len(path) >= len(start) && slices.Equal(path[:len(start)], start)
}

// folded returns the normalized names of a path; ".." removes the name before it.
func folded(path string) []string {
	var list []string
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' }) {
		switch name = workspace.Fold(name); name {
		case "", ".":
		case "..":
			list = list[:max(len(list)-1, 0)]
		default:
			list = append(list, name)
		}
	}
	return list
}
