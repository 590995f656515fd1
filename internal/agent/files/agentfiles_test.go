package files

import (
	"testing"
)

func machine(env map[string]string) Machine {
	return Machine{Home: "/home/me", OS: "linux", Getenv: func(name string) string { return env[name] }}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	find := func(m Machine, a Agent, s Scope, k Kind) string {
		for _, f := range m.Files(a, "/src/p") {
			if f.Scope == s && f.Has(k) {
				return f.Path
			}
		}
		return ""
	}
	m := machine(nil)
	moved := machine(map[string]string{"CLAUDE_CONFIG_DIR": "/x/claude", "CODEX_HOME": "/x/codex", "XDG_CONFIG_HOME": "/x/config"})
	for _, c := range []struct{ got, want string }{
		{find(m, ClaudeCode, User, Settings), "/home/me/.claude/settings.json"},
		{find(m, ClaudeCode, User, Servers), "/home/me/.claude.json"},
		{find(m, ClaudeCode, Project, Hooks), "/src/p/.claude/settings.json"},
		{find(m, ClaudeCode, Managed, Hooks), "/etc/claude-code/managed-settings.json"},
		{find(m, Codex, User, Settings), "/home/me/.codex/config.toml"},
		{find(m, Codex, User, Hooks), "/home/me/.codex/hooks.json"},
		{find(m, Codex, Managed, Hooks), "/etc/codex/requirements.toml"},
		{find(m, Cursor, User, Servers), "/home/me/.cursor/mcp.json"},
		{find(m, VSCode, User, Servers), "/home/me/.config/Code/User/mcp.json"},
		{find(m, VSCode, Project, Servers), "/src/p/.vscode/mcp.json"},
		{find(moved, ClaudeCode, User, Settings), "/x/claude/settings.json"},
		{find(moved, ClaudeCode, User, Servers), "/x/claude/.claude.json"},
		{find(moved, Codex, User, Hooks), "/x/codex/hooks.json"},
		{find(moved, VSCode, User, Servers), "/x/config/Code/User/mcp.json"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
	for _, a := range All {
		for _, f := range m.Files(a, "/src/p") {
			if !Watchable(f.Path) {
				t.Errorf("%s is not watchable", f.Path)
			}
		}
	}
	for _, name := range []string{"/etc/passwd", "settings.json", "/home/me/../you/settings.json", "/home/me/.ssh/id_ed25519"} {
		if Watchable(name) {
			t.Errorf("%s is watchable", name)
		}
	}
}

// TestGuards: guarded files are those that no tool of a hooked agent may write. Ordinary files
// are not guarded.
func TestGuards(t *testing.T) {
	t.Parallel()
	m := machine(map[string]string{"CODEX_HOME": "/data/codex"})
	list := m.Guards(Gateway{StateDir: "/home/me/.local/state/palyra", Config: "/home/me/.config/palyra/palyra.toml", Policies: "/home/me/.config/palyra/policies", Programs: []string{"/usr/local/bin/palyrad"}})
	for path, why := range map[string]Why{
		"/home/me/.claude/settings.json":                              AgentSettings,
		"/home/me/.claude/hooks/x.sh":                                 AgentSettings,
		"/home/me/.CLAUDE/Settings.json":                              AgentSettings,
		"/home/me/x/../.claude/settings.json":                         AgentSettings,
		"/home/me/.claude.json":                                       AgentSettings,
		"/data/codex/config.toml":                                     AgentSettings,
		"/src/other/.codex/hooks.json":                                AgentSettings,
		"/src/other/.mcp.json":                                        AgentSettings,
		"/src/other/.claude":                                          AgentSettings,
		"/src/other/.vscode/tasks.json":                               AgentSettings,
		"/etc/claude-code/managed-settings.d/a.json":                  AgentSettings,
		"/home/me/.config/Code/User/mcp.json":                         AgentSettings,
		"/home/me/.local/state/palyra/palyra.db":                      GatewayState,
		"/home/me/.local/state/palyra-cli/installed.json":             GatewayState,
		"/home/me/.claude/plans":                                      AgentSettings,
		"/home/me/.local/state/palyra":                                GatewayState,
		"/home/me/.config/palyra/palyra.toml":                         GatewayConfig,
		"/home/me/.config/palyra/policies/a.cedar":                    GatewayConfig,
		"/home/me/.config/systemd/user/palyrad.service":               GatewayService,
		"/home/me/.config/systemd/user/palyrad.service.d/x.conf":      GatewayService,
		"/usr/local/bin/palyrad":                                      GatewayService,
		`C:\src\p\.claude\settings.json`:                              AgentSettings,
		"/src/other/.cursor/mcp.json":                                 AgentSettings,
		"/home/me/.local/state/palyra/../palyra/operator/key.pem":     GatewayState,
		"/home/me/.config/systemd/user/palyrad.socket.d/override.con": GatewayService,
	} {
		if g, ok := Match(list, path); !ok || g.Why != why {
			t.Errorf("%s: %v, %v; want %s", path, ok, g, why)
		}
	}
	for _, path := range []string{
		"/src/p/main.go", "/src/p/claude/settings.json", "/src/p/.vscode/settings.json", "/home/me/.config/systemd/user/other.service",
		"/home/me/.local/state/palyra2/x", "/usr/local/bin/palyrad2", "/src/p/CLAUDE.md", "/src/p/mcp.json.txt", "/home/me/.claude/plans/a.md", "/home/me/.claude/projects/p/memory/x.md",
	} {
		if g, ok := Match(list, path); ok {
			t.Errorf("%s is guarded: %v", path, g)
		}
	}
}
