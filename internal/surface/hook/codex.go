package hook

import "palyra/internal/core/tool"

// codex is the table of Codex. Its hooks send the same messages as Claude Code's. The names and
// members are those in the version in Seen. The hook names the shell "Bash" and sends only the
// command of its calls: not the directory, the shell or the sandbox that the model requested.
var codex = Agent{
	Name: "codex", Seen: "0.169.0", read: readClaude, answer: answerCodex,
	rows: []row{
		{hook: []string{"Bash", "exec_command", "shell", "shell_command", "local_shell", "exec"}, name: "exec", act: tool.ActShell, caps: executes, line: "command", open: true},
		// Input to a running program, such as a shell, is treated as a command.
		{hook: []string{"write_stdin"}, name: "write_stdin", act: tool.ActInput, caps: executes, line: "chars", open: true},
		{hook: []string{"apply_patch"}, name: "apply_patch", act: tool.ActWrite, caps: writes, line: "command"},
		{hook: []string{"view_image"}, name: "view_image", act: tool.ActRead, caps: reads, paths: []string{"path"}},
		{hook: []string{"read_file"}, name: "read_file", act: tool.ActRead, caps: reads, paths: []string{"file_path"}},
		{hook: []string{"list_dir"}, name: "list_dir", act: tool.ActRead, caps: reads, paths: []string{"dir_path"}},
		{hook: []string{"grep_files"}, name: "grep_files", act: tool.ActRead, caps: reads, paths: []string{"path"}},
		{hook: []string{"web_search"}, name: "web_search", act: tool.ActFetch, caps: network, open: true},

		{hook: []string{"spawn_agent"}, name: "spawn_agent", act: tool.ActAgent, lasts: longest},
		{hook: []string{"send_input"}, name: "send_input", act: tool.ActAgent, lasts: longest},
		{hook: []string{"wait", "wait_agent"}, name: "wait", act: tool.ActAgent, lasts: longest},
		{hook: []string{"resume_agent"}, name: "resume_agent", act: tool.ActAgent, lasts: longest},
		{hook: []string{"close_agent"}, name: "close_agent", act: tool.ActAgent},

		{hook: []string{"list_mcp_resources"}, name: "list_mcp_resources", act: tool.ActMCP, caps: network, open: true, sensitive: true},
		{hook: []string{"list_mcp_resource_templates"}, name: "list_mcp_resource_templates", act: tool.ActMCP, caps: network, open: true, sensitive: true},
		{hook: []string{"read_mcp_resource"}, name: "read_mcp_resource", act: tool.ActMCP, caps: network, open: true, sensitive: true},

		{hook: []string{"update_plan"}, name: "update_plan", act: tool.ActTalk},
		{hook: []string{"request_user_input"}, name: "request_user_input", act: tool.ActTalk, lasts: longest},
		{hook: []string{"get_goal"}, name: "get_goal", act: tool.ActTalk},
		{hook: []string{"create_goal"}, name: "create_goal", act: tool.ActTalk},
		{hook: []string{"update_goal"}, name: "update_goal", act: tool.ActTalk},
	},
}

// answerCodex returns no output if a call may proceed. Codex treats any output except a denial,
// even an allow, as a failed hook, after which the call runs.
func answerCodex(m *Message, a Answer) []byte {
	if m != nil && m.Kind != Before || a.Allowed {
		return nil
	}
	return answered("deny", a.Text, Answer{})
}
