//go:build unix

package agents

import "palyra/test/process"

// agent is one of the agents under test.
type agent struct {
	name string
	// shell returns the model's call that runs a shell line, in the form that the agent offers.
	shell func(line string) call
	// ownTool is the name that the agent gives a tool of Palyra's own MCP server.
	ownTool func(name string) string
	// servers is the file, below the home, that names MCP servers.
	servers string
	// line is the agent's command line; bypass turns off the agent's own permission prompts.
	line func(prompt string, bypass bool) []string
	env  func(modelURL string) []string
	// known maps the tools that the agent offers but never sends to its hook to the reason.
	known map[string]string
}

var claude = &agent{
	name:    "claude-code",
	shell:   func(line string) call { return call{"Bash", map[string]any{"command": line, "description": "a test"}} },
	ownTool: func(name string) string { return "mcp__palyra__" + name },
	servers: ".claude.json",
	line: func(prompt string, bypass bool) []string {
		line := []string{"claude", "-p", prompt, "--output-format", "json"}
		if bypass {
			line = append(line, "--dangerously-skip-permissions")
		}
		return line
	},
	env: func(url string) []string {
		return []string{
			"ANTHROPIC_BASE_URL=" + url, "ANTHROPIC_API_KEY=of-a-test", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
			"DISABLE_AUTOUPDATER=1", "IS_SANDBOX=1",
		}
	},
}

var codex = &agent{
	name:    "codex",
	shell:   func(line string) call { return call{"exec_command", map[string]any{"cmd": line}} },
	ownTool: func(name string) string { return "mcp__palyra/" + name },
	servers: ".codex/config.toml",
	line: func(prompt string, bypass bool) []string {
		line := []string{"codex", "exec", "--skip-git-repo-check"}
		if bypass {
			line = append(line, "--dangerously-bypass-approvals-and-sandbox")
		} else {
			line = append(line, "--sandbox", "workspace-write")
		}
		return append(line, prompt)
	},
	env: func(string) []string { return []string{"PLAYED_KEY=of-a-test"} },
	known: map[string]string{
		"web_search": "OpenAI's servers run it: no hook of Codex is asked",
	},
}

var all = []*agent{claude, codex}

// start starts the agent in a person's workspace.
func (a *agent) start(p *person, bypass bool) *process.Child {
	p.t.Helper()
	line := a.line("go", bypass)
	cmd := p.command(program(line[0]), line[1:]...)
	cmd.Env = append(cmd.Env, a.env(p.model.url)...)
	return process.Begin(p.t, cmd)
}

// run has the model request the calls of the plan and waits until the agent exits.
func (a *agent) run(p *person, bypass bool, plan ...call) process.Result {
	p.t.Helper()
	p.model.wants(plan...)
	return a.start(p, bypass).Wait(p.t)
}
