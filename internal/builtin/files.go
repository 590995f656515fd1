package builtin

import (
	"encoding/json"
	"fmt"
	"strings"

	"palyra/internal/tool"
	"palyra/internal/workspace"
)

// files is what the file tools share.
type files struct {
	set     *workspace.Set
	version string
}

// target is the part of the input that names a file.
type target struct {
	Path      string `json:"path"`
	Workspace string `json:"workspace"`
}

// workspaceProperty is in the schema of every tool that uses a workspace.
const workspaceProperty = `"workspace": {"type": "string", "maxLength": 64, "description": "Name of the declared workspace. Leave it out for the only one or the one named default."}`

func schema(required string, properties ...string) json.RawMessage {
	return json.RawMessage(fmt.Sprintf(`{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "type": "object",
  "additionalProperties": false,
  "required": [%s],
  "properties": {
    %s
  }
}`, required, strings.Join(properties, ",\n    ")))
}

// Risk of a call, 0 to 100; docs/tools.md has the table.
const (
	riskList       = 2
	riskRead       = 5
	riskProtected  = 20
	riskCreate     = 20
	riskChange     = 30
	riskDelete     = 45
	riskExecutable = 10
)

// fileFacts are the facts of a call about one path.
func fileFacts(root *workspace.Root, real string, risk int) tool.Facts {
	facts := tool.Facts{
		Workspace: root.Name(), Path: real, Protected: workspace.Protected(real),
		PathFolded: workspace.FoldCase(real), HardLinks: linksAt(root, real),
		Risk: risk, SandboxTier: "builtin", SandboxLevel: "none",
	}
	if facts.Protected {
		facts.Risk = min(100, risk+riskProtected)
	}
	return facts
}

// look plans a call that reads below one path.
func (f files) look(name, verb string, t target, risk int) (tool.Plan, error) {
	root, err := f.set.Open(t.Workspace)
	if err != nil {
		return tool.Plan{}, err
	}
	defer root.Close()
	real, err := root.Resolve(t.Path)
	if err != nil {
		return tool.Plan{}, err
	}
	return tool.Plan{
		Facts:   fileFacts(root, real, risk),
		Preview: tool.Preview{Summary: fmt.Sprintf("%s %q in workspace %s.", verb, real, root.Name())},
		Subject: fmt.Sprintf("%s:%s:%s", name, root.Name(), subjectPart(real)),
	}, nil
}
