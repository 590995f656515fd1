//go:build linux

package attack

// gatewayRows are the attacks on the gateway itself and on the commit gate. Each has its own
// test, which drives the whole daemon.
func gatewayRows() []row {
	const closed, bound, tools = "claude-code#84863", "approve one, run another", "claude-code#15789, codex#24214"
	rows := []row{
		{id: "GW-01", variant: "policy invalid", source: closed},
		{id: "GW-01", variant: "policy unreadable", source: closed},
		{id: "GW-01", variant: "policy directory missing", source: closed},
		{id: "GW-01", variant: "helper missing", source: closed},
		{id: "GW-01", variant: "bubblewrap does not run", source: closed},
		{id: "GW-02", variant: "killed during a run", source: "SIGKILL of the gateway"},
		{id: "GW-02", variant: "killed at the gate", source: "SIGKILL of the gateway"},
		{id: "GW-03", variant: "script changed after approval", source: bound},
		{id: "GW-03", variant: "program changed after approval", source: bound},
		{id: "GW-03", variant: "arguments changed after approval", source: bound},
		{id: "GW-04", variant: "output that forges an attestation", source: "forged results"},
		{id: "GW-05", variant: "fs.read through a link", source: tools},
		{id: "GW-05", variant: "fs.read through a parent", source: tools},
		{id: "GW-05", variant: "fs.list", source: tools},
		{id: "GW-05", variant: "fs.search", source: tools},
		{id: "GW-05", variant: "fs.write through a link", source: tools},
		{id: "GW-05", variant: "fs.patch", source: tools},
		{id: "GW-05", variant: "process.run cwd", source: tools},
		{id: "GW-06", variant: "confinement under load", source: "mcpproxy-go#932"},
		{id: "GW-07", variant: "concurrent runs", source: "lost updates"},
	}
	for _, r := range factRows() {
		rows = append(rows, row{id: r.id, variant: r.variant, source: "judge one file, read another"})
	}
	for _, r := range otherUserRows() {
		rows = append(rows, row{id: r.id, variant: r.variant, source: "files of another user", root: true})
	}
	for _, r := range shellRows() {
		rows = append(rows, row{id: r.id, variant: r.variant, source: "a command within a command"})
	}
	for _, r := range gateRows() {
		rows = append(rows, row{id: r.id, variant: r.variant, source: "trust handed on"})
	}
	return rows
}
