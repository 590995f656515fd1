package policy

import (
	_ "embed"
	"encoding/json"
	"fmt"

	"palyra/internal/core/tool"
)

// builtinToolsJSON are the definitions of the daemon's own tools. The CLI may
// not import executors, so that it cannot run a tool; a test proves that the
// file is current.
//
//go:embed builtin_tools.json
var builtinToolsJSON []byte

func builtinTools() ([]tool.Descriptor, error) {
	var tools []tool.Descriptor
	if err := json.Unmarshal(builtinToolsJSON, &tools); err != nil {
		return nil, fmt.Errorf("reading the list of built-in tools: %w", err)
	}
	return tools, nil
}
