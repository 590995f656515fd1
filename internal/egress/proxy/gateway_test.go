package proxy

import (
	"net"
	"testing"

	"palyra/internal/egress"
)

// TestNoLegReachesTheGateway: a program cannot reach a listener of the gateway by any leg,
// although the rules allow its name and its address. Control: the gateway listens elsewhere.
func TestNoLegReachesTheGateway(t *testing.T) {
	t.Parallel()
	for leg, connect := range legs {
		for _, target := range []string{"own.test:7", "11.9.9.9:7"} {
			for _, known := range []bool{true, false} {
				t.Run(leg+" "+target, func(t *testing.T) {
					w := newWorld(t)
					w.addresses["own.test"] = mustAddr(t, "11.9.9.9")
					w.host("11.9.9.9:7", echo)
					grant := grantOf(t, "own.test:7", "11.9.9.9:7")
					grant.Rules.Gateway = &egress.Gateway{}
					port := 8
					if known {
						port = 7
					}
					grant.Rules.Gateway.Listen(&net.TCPAddr{IP: net.IPv4(11, 9, 9, 9), Port: port})
					w.serve(grant)
					conn, err := connect(w, target)
					if !known {
						exchange(t, w.must(conn, err), "hello")
						return
					}
					refusedOn(t, leg, egress.ReasonGateway, conn, err)
					if got := w.only(); got.Reason != egress.ReasonGateway || got.Verdict != egress.VerdictDenied || len(w.dialled) > 0 {
						t.Errorf("ledger: %+v, dialled %v", got, w.dialled)
					}
				})
			}
		}
	}
}
