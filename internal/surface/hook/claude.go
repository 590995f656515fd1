package hook

import (
	"encoding/json"

	"palyra/internal/core/tool"
)

// claudeCode is the table of Claude Code. Its hooks are documented at
// code.claude.com/docs/en/hooks. The names and members are those in the version in Seen.
var claudeCode = Agent{
	Name: "claude-code", Seen: "2.1.330", read: readClaude, answer: answerClaude, edits: true,
	rows: []row{
		{hook: []string{"Read"}, name: "Read", act: tool.ActRead, caps: reads, paths: []string{"file_path"}},
		{hook: []string{"Glob"}, name: "Glob", act: tool.ActRead, caps: reads, paths: []string{"path"}},
		{hook: []string{"Grep"}, name: "Grep", act: tool.ActRead, caps: reads, paths: []string{"path"}},
		{hook: []string{"LS"}, name: "LS", act: tool.ActRead, caps: reads, paths: []string{"path"}},
		{hook: []string{"LSP"}, name: "LSP", act: tool.ActRead, caps: reads, paths: []string{"filePath"}},
		{hook: []string{"NotebookRead"}, name: "NotebookRead", act: tool.ActRead, caps: reads, paths: []string{"notebook_path"}},

		{hook: []string{"Edit"}, name: "Edit", act: tool.ActWrite, caps: writes, paths: []string{"file_path"}},
		{hook: []string{"MultiEdit"}, name: "MultiEdit", act: tool.ActWrite, caps: writes, paths: []string{"file_path"}},
		{hook: []string{"Write"}, name: "Write", act: tool.ActWrite, caps: writes, paths: []string{"file_path"}},
		{hook: []string{"NotebookEdit"}, name: "NotebookEdit", act: tool.ActWrite, caps: writes, paths: []string{"notebook_path"}},

		{hook: []string{"Bash"}, name: "Bash", act: tool.ActShell, caps: executes, line: "command", open: true},
		{hook: []string{"PowerShell"}, name: "PowerShell", act: tool.ActShell, caps: executes, line: "command", open: true},
		// Monitor runs a command and wakes the agent with each line of output.
		{hook: []string{"Monitor"}, name: "Monitor", act: tool.ActShell, caps: executes, open: true, lasts: longest},
		// The worktree tools create or remove a git worktree, which runs the hooks of the repository.
		{hook: []string{"EnterWorktree"}, name: "EnterWorktree", act: tool.ActShell, caps: executes},
		{hook: []string{"ExitWorktree"}, name: "ExitWorktree", act: tool.ActShell, caps: executes},
		{hook: []string{"TaskOutput", "BashOutput", "AgentOutput"}, name: "TaskOutput", act: tool.ActTalk, lasts: longest},
		{hook: []string{"TaskStop", "KillShell", "KillBash"}, name: "TaskStop", act: tool.ActTalk},

		{hook: []string{"WebFetch"}, name: "WebFetch", act: tool.ActFetch, caps: network, urls: []string{"url"}, open: true},
		{hook: []string{"WebSearch"}, name: "WebSearch", act: tool.ActFetch, caps: network, open: true},
		{hook: []string{"RemoteTrigger"}, name: "RemoteTrigger", act: tool.ActFetch, caps: network, open: true},

		// The calls of other agents arrive by their own hooks.
		{hook: []string{"Agent", "Task"}, name: "Agent", act: tool.ActAgent, lasts: longest},
		{hook: []string{"ListAgents"}, name: "ListAgents", act: tool.ActAgent},
		{hook: []string{"SendMessage"}, name: "SendMessage", act: tool.ActAgent},
		{hook: []string{"TeamCreate"}, name: "TeamCreate", act: tool.ActAgent},
		{hook: []string{"TeamDelete"}, name: "TeamDelete", act: tool.ActAgent},
		{hook: []string{"ScheduleWakeup"}, name: "ScheduleWakeup", act: tool.ActAgent, lasts: longest},
		{hook: []string{"CronCreate"}, name: "CronCreate", act: tool.ActAgent},
		{hook: []string{"CronDelete"}, name: "CronDelete", act: tool.ActAgent},
		{hook: []string{"CronList"}, name: "CronList", act: tool.ActAgent},
		// A workflow is a script that can start dozens of agents.
		{hook: []string{"Workflow"}, name: "Workflow", act: tool.ActAgent, sensitive: true, lasts: longest},
		// The text of a skill may contain commands that run while it is loaded, without any hook.
		{hook: []string{"Skill"}, name: "Skill", act: tool.ActSkill, caps: executes},
		{hook: []string{"SlashCommand"}, name: "SlashCommand", act: tool.ActSkill, caps: executes},

		{hook: []string{"ReadMcpResourceTool", "ReadMcpResource"}, name: "ReadMcpResource", act: tool.ActMCP, caps: network, open: true, sensitive: true},
		{hook: []string{"ReadMcpResourceDirTool", "ReadMcpResourceDir"}, name: "ReadMcpResourceDir", act: tool.ActMCP, caps: network, open: true, sensitive: true},
		{hook: []string{"ListMcpResourcesTool", "ListMcpResources"}, name: "ListMcpResources", act: tool.ActMCP, caps: network, open: true, sensitive: true},

		{hook: []string{"TodoWrite"}, name: "TodoWrite", act: tool.ActTalk},
		{hook: []string{"TaskCreate"}, name: "TaskCreate", act: tool.ActTalk},
		{hook: []string{"TaskUpdate"}, name: "TaskUpdate", act: tool.ActTalk},
		{hook: []string{"TaskGet"}, name: "TaskGet", act: tool.ActTalk},
		{hook: []string{"TaskList"}, name: "TaskList", act: tool.ActTalk},
		{hook: []string{"ToolSearch"}, name: "ToolSearch", act: tool.ActTalk},
		{hook: []string{"ReportFindings"}, name: "ReportFindings", act: tool.ActTalk},
		{hook: []string{"DeferredToolPlaceholder"}, name: "DeferredToolPlaceholder", act: tool.ActTalk},
		{hook: []string{"EnterPlanMode"}, name: "EnterPlanMode", act: tool.ActTalk, own: true},
		{hook: []string{"ExitPlanMode"}, name: "ExitPlanMode", act: tool.ActTalk, own: true, lasts: longest},
		{hook: []string{"AskUserQuestion"}, name: "AskUserQuestion", act: tool.ActTalk, own: true, lasts: longest},
	},
}

// common has the members that the hooks of Claude Code and of Codex share.
type common struct {
	SessionID      string          `json:"session_id"`
	Cwd            string          `json:"cwd"`
	PermissionMode string          `json:"permission_mode"`
	Event          string          `json:"hook_event_name"`
	Tool           string          `json:"tool_name"`
	Input          json.RawMessage `json:"tool_input"`
	CallID         string          `json:"tool_use_id"`
	Response       json.RawMessage `json:"tool_response"`
	Error          json.RawMessage `json:"error"`
	Background     []struct {
		Status string `json:"status"`
	} `json:"background_tasks"`
}

var kinds = map[string]Kind{
	"PreToolUse": Before, "PostToolUse": After, "PostToolUseFailure": Failed, "Stop": TurnEnd, "SessionEnd": SessionEnd,
}

func (c *common) message() (*Message, error) {
	kind, ok := kinds[c.Event]
	if !ok {
		return nil, unknownEvent(c.Event).WithRemedy("Run `palyra hook install` again; it installs the hook for the supported events only.")
	}
	m := &Message{
		Kind: kind, Event: c.Event, Session: c.SessionID, CallID: c.CallID, Tool: c.Tool, Input: c.Input, Response: c.Response,
		Cwd: c.Cwd, PermissionMode: c.PermissionMode, Busy: len(c.Background) > 0,
	}
	var why string
	if json.Unmarshal(c.Error, &why) == nil {
		m.Message = why
	}
	return m, m.check()
}

func readClaude(body []byte) (*Message, error) {
	var c common
	if err := decode(body, &c); err != nil {
		return nil, err
	}
	return c.message()
}

// preToolUse is the answer of both agents to PreToolUse.
type preToolUse struct {
	Output struct {
		Event    string `json:"hookEventName"`
		Decision string `json:"permissionDecision"`
		Reason   string `json:"permissionDecisionReason,omitempty"`
		// Input replaces the input of the call, and Context is passed to the model.
		Input   json.RawMessage `json:"updatedInput,omitempty"`
		Context string          `json:"additionalContext,omitempty"`
	} `json:"hookSpecificOutput"`
}

func answered(decision, why string, a Answer) []byte {
	var out preToolUse
	out.Output.Event, out.Output.Decision, out.Output.Reason = "PreToolUse", decision, why
	if a.Edited != nil {
		out.Output.Input, out.Output.Reason, out.Output.Context = a.Edited, a.Text, a.Text
	}
	text, err := json.Marshal(out)
	if err != nil {
		panic("hook: an answer of texts cannot be written: " + err.Error())
	}
	return text
}

// answerClaude never returns "ask": automatic modes of the agent would answer it themselves.
func answerClaude(m *Message, a Answer) []byte {
	switch {
	case m != nil && m.Kind != Before:
		return []byte("{}")
	case !a.Allowed:
		return answered("deny", a.Text, Answer{})
	case a.Own:
		return []byte("{}")
	}
	return answered("allow", "", a)
}
