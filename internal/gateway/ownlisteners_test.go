package gateway

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
)

// TestToolsDoNotReachTheGateway: with the address of this machine allowed, http.fetch cannot
// reach the gateway's own listeners, whose ports the system chose. Control: another server at
// that address is reachable.
func TestToolsDoNotReachTheGateway(t *testing.T) {
	t.Parallel()
	beside := httptest.NewServer(http.NotFoundHandler())
	defer beside.Close()
	cfg := testConfig(t)
	cfg.AllowedTools = []string{"http.*"}
	cfg.HTTP.AllowedHosts = []string{"127.0.0.1"}
	cfg.Listen.Agents = "127.0.0.1:0"
	d := start(t, cfg)
	client := palyrav1connect.NewGatewayServiceClient(d.client(), d.url())
	evaluate := func(url string) error {
		_, err := client.EvaluateTool(t.Context(), &palyrav1.EvaluateToolRequest{Tool: "http.fetch", InputJson: []byte(`{"url":"` + url + `"}`)})
		return err
	}
	for name, at := range map[string]string{"api": d.API, "metrics": d.Metrics, "agents": d.Agents} {
		_, port, err := net.SplitHostPort(at)
		must.Do(t, err)
		for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]"} {
			if err := evaluate("http://" + host + ":" + port + "/"); err == nil || !strings.Contains(err.Error(), "the gateway itself listens on") {
				t.Errorf("%s at %s: %v", name, host, err)
			}
		}
	}
	if err := evaluate(beside.URL + "/"); err != nil {
		t.Errorf("control: %v", err)
	}
}
