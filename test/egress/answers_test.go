//go:build linux

package egress

import (
	"cmp"
	"fmt"
	"net"
	"strconv"
	"testing"

	"palyra/internal/core/must"
)

// TestAnswersThatAreRefused: an allowed name gives no access to forbidden addresses, whatever
// the name server answers, also at a later query.
func TestAnswersThatAreRefused(t *testing.T) {
	t.Parallel()
	g := newGround(t)
	const failed, refused = "failed", "denied address_not_public"
	for i, test := range []struct {
		name    string
		answers []string
		// says holds the result of each of three fetches in one run, verdict the verdict of their
		// connections.
		says, verdict string
	}{
		{"loopback", []string{"127.0.0.1"}, failed, refused},
		{"loopback IPv6", []string{"::1"}, failed, refused},
		{"metadata", []string{"169.254.169.254"}, failed, refused},
		{"private", []string{"10.1.2.3"}, failed, refused},
		{"mapped loopback", []string{"::ffff:127.0.0.1"}, failed, refused},
		{"loopback in NAT64", []string{"64:ff9b::7f00:1"}, failed, refused},
		{"own interface", []string{"11.0.0.99"}, failed, refused},
		{"no such name", nil, failed, "failed unresolved"},
		{"another one the second time", []string{"11.0.0.1", "127.0.0.1"}, "", "allowed"},
		{"another one, where it is asked first", []string{"127.0.0.1", "11.0.0.1"}, failed, refused},
	} {
		t.Run(test.name, func(t *testing.T) {
			host := fmt.Sprintf("answer%d.example", i)
			if test.answers != nil {
				g.zone.Set(host, test.answers...)
			}
			url := "http://" + host + "/hello"
			argv := []string{"./client", "fetch"}
			var says []string
			ledger := []string{"name " + host + " allowed"}
			for range 3 {
				argv = append(argv, "4", url)
				says = append(says, "4 "+url+" "+cmp.Or(test.says, "hello from "+host))
				ledger = append(ledger, "transparent "+host+":80 "+test.verdict)
			}
			said, recorded, report := g.run(t, g.spec(t, []string{host + ":80"}, argv...))
			expect(t, "it says", said, says, report.Stderr)
			expect(t, "the record", recorded, ledger, report.Stderr)
			if again := g.zone.Repeated(); again != nil {
				t.Errorf("in one run these were asked more than once: %q", again)
			}
		})
	}
}

// TestOwnServiceThatIsAllowed: a service of the machine itself is reachable by name if a rule also
// lists its exact address, with real connections.
func TestOwnServiceThatIsAllowed(t *testing.T) {
	t.Parallel()
	const host = "own.example"
	w := newWorld(t)
	w.zone.Set(host, "127.0.0.1")
	service := w.at[net.JoinHostPort("11.0.0.9", strconv.Itoa(echoPort))]
	_, port, err := net.SplitHostPort(service)
	must.Do(t, err)
	w.inEarnest = true
	g := newGroundOf(t, w)
	for _, test := range []struct {
		name    string
		hosts   []string
		says    string
		verdict string
	}{
		{"name alone", []string{host + ":" + port}, "reset", "denied address_not_public"},
		{"name and address", []string{host + ":" + port, service}, "hello", "allowed"},
		{"address of another port", []string{host + ":" + port, "127.0.0.1:1"}, "reset", "denied address_not_public"},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := host + ":" + port
			said, recorded, report := g.run(t, g.spec(t, test.hosts, "./client", "try", "tcp,"+target))
			expect(t, "it says", said, []string{"tcp," + target + " " + test.says}, report.Stderr)
			expect(t, "the record", recorded, []string{"name " + host + " allowed", "transparent " + target + " " + test.verdict}, report.Stderr)
		})
	}
}
