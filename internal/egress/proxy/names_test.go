package proxy

import (
	"fmt"
	"strings"
	"testing"

	"palyra/internal/egress"
)

// TestNamesAreSentBytes: names under a wildcard count towards the sent bytes, once each, and a
// spent budget refuses further names before they are looked up. Controls: names that rules spell
// out, and a name that is already known.
func TestNamesAreSentBytes(t *testing.T) {
	t.Parallel()
	name := func(i int) string { return fmt.Sprintf("%s%d.out.test", strings.Repeat("x", 50), i) }
	for leg, connect := range legs {
		t.Run(leg, func(t *testing.T) {
			each := sentBy(egress.Host{}) + queries*int64(len(name(0)))
			w := newWorld(t)
			rules := []string{"*.out.test:7"}
			for i := range 6 {
				w.host(name(i)+":7", echo)
			}
			for i := 4; i < 6; i++ { // allowed by name too
				rules = append(rules, name(i)+":7")
			}
			grant := grantOf(t, rules...)
			grant.Budget.BytesOut = 2*each + each/2
			w.serve(grant)
			use := func(i int) {
				conn := w.must(connect(w, name(i)+":7"))
				conn.Close()
			}
			for _, i := range []int{0, 1, 0, 4, 5} {
				use(i)
			}
			conn, err := connect(w, name(2)+":7") // the third name
			refusedOn(t, leg, egress.ReasonBudgetBytesOut, conn, err)
			use(1)
			var sent int64
			var refused int
			w.ledger()
			list, _ := w.proxy.Connections()
			for _, c := range list {
				sent += c.BytesOut
				if c.Reason == egress.ReasonBudgetBytesOut {
					refused++
				}
			}
			if sent != 2*each || refused != 1 || w.lookedUp(name(2)) || !w.lookedUp(name(1)) {
				t.Errorf("%d bytes sent, want %d; %d refused, looked up %t", sent, 2*each, refused, w.lookedUp(name(2)))
			}
		})
	}
}
