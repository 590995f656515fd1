package setup

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"palyra/internal/agent/files"
	"palyra/internal/cli/client"
	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/setup/install"
	"palyra/internal/core/config"
	"palyra/internal/core/tomledit"
)

// configCommands is one run of the program, with the command of this package.
type configCommands struct{ *client.App }

// generic stands for any other MCP client.
const generic files.Agent = "generic"

// margin is how much longer a client waits than an approver may take.
const margin = 30 * time.Second

// MCPConfigCommand is `palyra mcp config`, for the group of that name.
func MCPConfigCommand(program *client.App) *cobra.Command {
	a := &configCommands{program}
	names := []string{string(generic)}
	for _, agent := range files.All {
		names = append(names, string(agent))
	}
	slices.Sort(names)
	var stdio bool
	c := &cobra.Command{
		Use: "config CLIENT", Short: "Print the configuration of Palyra's MCP server for a client", Args: command.Args(1, 1),
		Long: "Print what tells an MCP client of Palyra's server: claude-code, codex, cursor, vscode, or\n" +
			"generic. The client waits longer than a person may take to answer, and reads its token\n" +
			"from the variable " + client.TokenVariable + ": no credential stands in the file. Over HTTP where\n" +
			"palyrad listens for agents (listen.agents), otherwise, and with --stdio, by\n" +
			"`palyra mcp serve`.",
		Example:   "palyra mcp config claude-code\npalyra mcp config codex >> ~/.codex/config.toml",
		ValidArgs: names,
		RunE: func(_ *cobra.Command, given []string) error {
			agent := files.Agent(given[0])
			if !slices.Contains(names, given[0]) {
				return command.Usage("client %q is not known", given[0]).WithRemedy("Name one of: %s.", strings.Join(names, ", "))
			}
			return a.print(agent, stdio)
		},
	}
	c.Flags().BoolVar(&stdio, "stdio", false, "have the client start palyra mcp serve, in place of HTTP")
	return c
}

// snippet contains the settings of a client.
type snippet struct {
	agent   files.Agent
	url     string
	program string
	limit   time.Duration
}

func (a *configCommands) print(agent files.Agent, stdio bool) error {
	c, _, _, err := config.LoadClient(a.LoadOptions())
	if err != nil {
		return err
	}
	s := snippet{agent: agent, limit: c.Approvals.DefaultTimeout + margin}
	if c.Listen.Agents != "" && !stdio {
		s.url = "http://" + c.Listen.Agents + "/mcp"
	} else if s.program = install.Beside("palyra"); s.program == "" {
		s.program = "palyra"
	}
	text, err := s.text()
	if err != nil {
		return err
	}
	m, err := install.MachineOf(a.App)
	if err != nil {
		return err
	}
	file := "where the client keeps its servers"
	for _, f := range m.Files(agent, "") {
		if f.Scope == files.User && f.Has(files.Servers) {
			file = f.Path
		}
	}
	if a.Format() != printer.FormatTable {
		return a.PrintOne("McpConfig", printer.Record{Name: string(agent), Body: printer.Object{{Name: "client", Value: string(agent)}, {Name: "file", Value: file}, {Name: "text", Value: text}}}, nil)
	}
	a.Say("put this into %s, and set %s where the client is started to what `palyra tokens create %s --for agent:NAME` shows", file, client.TokenVariable, agent)
	return a.WriteRaw([]byte(text))
}

// text returns the snippet in the format of the client's file.
func (s snippet) text() (string, error) {
	switch s.agent {
	case files.Codex:
		return s.codex()
	case files.VSCode:
		server := s.server("${env:" + client.TokenVariable + "}")
		return indented(map[string]any{"servers": map[string]any{"palyra": server}})
	case files.Cursor:
		server := s.server("${env:" + client.TokenVariable + "}")
		delete(server, "type")
		return indented(map[string]any{"mcpServers": map[string]any{"palyra": server}})
	case files.ClaudeCode:
		server := s.server("${" + client.TokenVariable + "}")
		server["timeout"] = s.limit.Milliseconds()
		return indented(map[string]any{"mcpServers": map[string]any{"palyra": server}})
	}
	return indented(map[string]any{"mcpServers": map[string]any{"palyra": s.server("${" + client.TokenVariable + "}")}})
}

// server returns the server for clients with JSON settings. token is the token, or a reference
// to a variable with it.
func (s snippet) server(token string) map[string]any {
	if s.url != "" {
		return map[string]any{"type": "http", "url": s.url, "headers": map[string]any{"Authorization": "Bearer " + token}}
	}
	return map[string]any{"type": "stdio", "command": s.program, "args": []string{"mcp", "serve"}, "env": map[string]any{client.TokenVariable: token}}
}

func (s snippet) codex() (string, error) {
	pairs := []tomledit.Pair{{Key: "url", Value: s.url}, {Key: "bearer_token_env_var", Value: client.TokenVariable}}
	if s.url == "" {
		pairs = []tomledit.Pair{{Key: "command", Value: s.program}, {Key: "args", Value: []string{"mcp", "serve"}}, {Key: "env_vars", Value: []string{client.TokenVariable}}}
	}
	text, err := tomledit.AddTable(nil, []string{"mcp_servers", "palyra"}, append(pairs, tomledit.Pair{Key: "tool_timeout_sec", Value: int(s.limit.Seconds())})...)
	return string(text), err
}

func indented(v any) (string, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return "", fmt.Errorf("writing the snippet: %w", err)
	}
	return string(text) + "\n", nil
}
