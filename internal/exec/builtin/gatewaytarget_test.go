package builtin

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
)

// TestFetchNeverReachesTheGateway: a fetch cannot reach the gateway directly, by a name, or by
// a redirect, even if the operator's rules allow its address. Control: the same fetch without
// the gateway's listener.
func TestFetchNeverReachesTheGateway(t *testing.T) {
	t.Parallel()
	target := ""
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/start" {
			http.Redirect(w, r, target, http.StatusFound)
			return
		}
		fmt.Fprintf(w, "arrived at %s", r.Host)
	}
	for name, test := range map[string]struct{ url, target string }{
		"by a name":  {"http://evil.example.com/", ""},
		"redirected": {"http://example.com/start", "http://127.0.0.1/"},
		"mapped":     {"http://example.com/start", "http://[::ffff:127.0.0.1]/"},
	} {
		t.Run(name, func(t *testing.T) {
			target = test.target
			fetch := func(gateway *egress.Gateway) (*internet, tool.Report) {
				n := newInternet(t, handler, func(p *HTTPPolicy) {
					p.Allowed, p.Gateway = rules(t, "example.com", "evil.example.com", "127.0.0.1"), gateway
				})
				report, _ := n.bench.call(t.Context(), "http.fetch", object{"url": test.url})
				return n, report
			}
			gateway := &egress.Gateway{}
			gateway.Listen(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80})
			if n, report := fetch(gateway); report.Reason != string(reason.EgressDenied) || n.private != 0 {
				t.Errorf("%+v, %d connections to the gateway", report, n.private)
			}
			// A literal address is refused before an approval.
			n := newInternet(t, handler, func(p *HTTPPolicy) { p.Allowed, p.Gateway = rules(t, "127.0.0.1"), gateway })
			n.bench.refused("http.fetch", object{"url": "http://127.0.0.1/"}, reason.EgressDenied)
			if n, report := fetch(nil); report.Outcome != tool.Succeeded || n.private != 1 {
				t.Errorf("control: %+v, %d connections", report, n.private)
			}
		})
	}
}
