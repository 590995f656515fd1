package setup

import (
	"net"
	"strconv"
	"testing"

	"palyra/internal/core/config"
	"palyra/internal/core/must"
)

// TestFreePort: the port for agents is neither in use nor one of palyrad's other listeners, by
// default or by configuration.
func TestFreePort(t *testing.T) {
	t.Parallel()
	first := strconv.Itoa(firstPort)
	for name, own := range map[string]config.Listen{
		"the defaults":           config.Default().Listen,
		"the console is there":   {Console: "127.0.0.1:" + first},
		"metrics are there":      {Metrics: "127.0.0.1:" + first},
		"the API is everywhere":  {API: "0.0.0.0:" + first},
		"nothing else is listed": {},
	} {
		address := must.Get(freePort(own))(t)
		_, port, _ := net.SplitHostPort(address)
		for _, other := range []string{own.API, own.Metrics, own.Console} {
			if _, taken, _ := net.SplitHostPort(other); taken == port {
				t.Errorf("%s: agents get %s, and palyrad listens on %s itself", name, address, other)
			}
		}
	}
	// Control: without palyrad's own listeners the first port is chosen.
	if !onPort(firstPort, "[::]:"+first) || onPort(firstPort, "", "127.0.0.1:1") {
		t.Error("a port is not seen in an address")
	}
}
