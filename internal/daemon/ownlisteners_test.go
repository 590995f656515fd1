package daemon

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"palyra/internal/must"
	"palyra/internal/reason"
)

// TestToolsDoNotReachTheGateway: http.fetch is allowed the address of this machine by
// name and number, and reaches none of the gateway's own listeners, whose ports the
// system chose. The control is a server beside them.
func TestToolsDoNotReachTheGateway(t *testing.T) {
	beside := httptest.NewServer(http.NotFoundHandler())
	defer beside.Close()
	cfg := testConfig(t)
	cfg.AllowedTools = []string{"http.*"}
	cfg.HTTP.AllowedHosts = []string{"127.0.0.1", "localhost"}
	cfg.Listen.Agents = "127.0.0.1:0"
	d := start(t, cfg)
	for name, at := range map[string]string{"api": d.API, "metrics": d.Metrics, "agents": d.Agents} {
		_, port, _ := strings.Cut(at, ":")
		for _, host := range []string{"127.0.0.1", "[::ffff:127.0.0.1]"} {
			if told := d.called("http.fetch", `{"url":"http://`+host+":"+port+`/"}`); !strings.Contains(told, string(reason.EgressDenied)) && !strings.Contains(told, "where the gateway itself listens") {
				t.Errorf("%s at %s: %s", name, host, told)
			}
		}
	}
	if told := d.called("http.fetch", `{"url":"`+beside.URL+`/"}`); strings.Contains(told, string(reason.EgressDenied)) || strings.Contains(told, "listens") {
		t.Errorf("control: %s", told)
	}
	must.Get(http.Get("http://" + d.Metrics + "/healthz"))(t).Body.Close()
}
