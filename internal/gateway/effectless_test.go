package gateway

import (
	"testing"

	"palyra/internal/call/dispatch"
	"palyra/internal/core/must"
	"palyra/internal/core/tool"
	"palyra/internal/exec/builtin"
	"palyra/internal/exec/workspace"
)

// Of the daemon's own tools, only echo may be recorded after it ran.
func TestEffectlessTools(t *testing.T) {
	t.Parallel()
	set := must.Get(workspace.NewSet(nil))(t)
	var tools []tool.Runnable
	for _, b := range builtin.New(builtin.Config{Workspaces: set}) {
		tools = append(tools, b)
	}
	router := must.Get(dispatch.New(dispatch.Config{Tools: tools, Snapshot: func() string { return "" }, Timeout: 1}))(t)
	for _, d := range router.Descriptors() {
		if got, want := router.Effectless(d.Name), d.Name == "echo"; got != want {
			t.Errorf("%s counts as effectless: %t, want %t", d.Name, got, want)
		}
	}
	if router.Effectless("nothing") {
		t.Error("a tool that does not exist counts as effectless")
	}
}
