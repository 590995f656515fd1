//go:build palyrainit

package gateway

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/config"
	"palyra/internal/core/must"
)

// TestTimeoutInEveryTier: in every tier, a call that reaches its execution limit has timed out
// and is not reported as cancelled. The test sets the limit of dispatch, whose clock starts
// before the runners' clocks. The limit of http.fetch ends at the same moment.
func TestTimeoutInEveryTier(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	t.Cleanup(func() { close(over); silent.Close() })
	sleep := map[string]any{"argv": []string{"sleep", "60"}}
	tier := func(name string) func(*config.Config) {
		return func(c *config.Config) { c.ProcessRunner.Tier = name }
	}
	for name, row := range map[string]struct {
		tool   string
		input  map[string]any
		change func(*config.Config)
	}{
		"builtin": {"http.fetch", map[string]any{"url": silent.URL}, func(c *config.Config) {
			c.HTTP.AllowedHosts = []string{strings.TrimPrefix(silent.URL, "http://")}
		}},
		"Tier B": {"process.run", sleep, tier(config.TierB)},
		"Tier C": {"process.run", sleep, tier(config.TierC)},
	} {
		t.Run(name, func(t *testing.T) {
			g := startGoverned(t, func(c *config.Config) {
				c.ExecutionTimeoutMS = 2000
				row.change(c)
			})
			input := must.Get(json.Marshal(row.input))(t)
			stream := must.Get(palyrav1connect.NewGatewayServiceClient(g.client(), g.url()).CallTool(t.Context(), &palyrav1.CallToolRequest{Tool: row.tool, InputJson: input}))(t)
			var result *palyrav1.ToolResult
			for stream.Receive() {
				if e, ok := stream.Msg().GetEvent().(*palyrav1.CallToolResponse_Result); ok {
					result = e.Result
				}
			}
			if result.GetOutcome() != "timed_out" || result.GetReason() != "TIMED_OUT" {
				t.Errorf("%s, %s (%s), %v", result.GetOutcome(), result.GetReason(), result.GetMessage(), stream.Err())
			}
		})
	}
}
