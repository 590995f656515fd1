//go:build linux

package egress

import (
	"net"
	"slices"
	"strconv"
	"testing"
)

// TestAnswersThatAreRefused: an allowed name does not open the addresses behind
// it that no program is to reach, whatever the name server says, and says the
// next time.
func TestAnswersThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		name    string
		answers [][]string
		// says is of three fetches in one run, verdicts are of the connections.
		says     []string
		verdicts []string
	}{
		{"loopback", [][]string{{"127.0.0.1"}}, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"denied address_not_public"}, 3)},
		{"loopback IPv6", [][]string{{"::1"}}, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"denied address_not_public"}, 3)},
		{"metadata", [][]string{{"169.254.169.254"}}, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"denied address_not_public"}, 3)},
		{"private", [][]string{{"10.1.2.3"}}, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"denied address_not_public"}, 3)},
		{"mapped loopback", [][]string{{"::ffff:127.0.0.1"}}, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"denied address_not_public"}, 3)},
		{"loopback in NAT64", [][]string{{"64:ff9b::7f00:1"}}, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"denied address_not_public"}, 3)},
		{"own interface", [][]string{{"11.0.0.99"}}, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"denied address_not_public"}, 3)},
		{"no such name", nil, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"failed unresolved"}, 3)},
		{"another one the second time", [][]string{{"11.0.0.1"}, {"127.0.0.1"}}, slices.Repeat([]string{"hello from rebind.example"}, 3), slices.Repeat([]string{"allowed"}, 3)},
		{"another one, where it is asked first", [][]string{{"127.0.0.1"}, {"11.0.0.1"}}, []string{"failed", "failed", "failed"}, slices.Repeat([]string{"denied address_not_public"}, 3)},
	} {
		t.Run(test.name, func(t *testing.T) {
			const host = "rebind.example"
			w := newWorld(t)
			if test.answers != nil {
				w.zone[host] = test.answers
			}
			g := newGroundOf(t, w)
			url := "http://" + host + "/hello"
			argv := []string{"./client", "fetch"}
			var says []string
			for _, text := range test.says {
				argv = append(argv, "4", url)
				says = append(says, "4 "+url+" "+text)
			}
			ledger := []string{"name " + host + " allowed"}
			for _, verdict := range test.verdicts {
				ledger = append(ledger, "transparent "+host+":80 "+verdict)
			}
			said, recorded, report := g.run(t, g.spec(t, []string{host + ":80"}, argv...))
			expect(t, "it says", said, says, report.Stderr)
			expect(t, "the record", recorded, ledger, report.Stderr)
			for question, times := range w.lookups {
				if times > 1 {
					t.Errorf("%s was asked %d times in one run", question, times)
				}
			}
		})
	}
}

// TestOwnServiceThatIsAllowed: a service of the machine itself is reached by
// name when a rule names its very address as well, and by dialling in earnest.
func TestOwnServiceThatIsAllowed(t *testing.T) {
	const host = "own.example"
	w := newWorld(t)
	w.zone[host] = [][]string{{"127.0.0.1"}}
	service := w.at[net.JoinHostPort("11.0.0.9", strconv.Itoa(echoPort))]
	_, port, err := net.SplitHostPort(service)
	if err != nil {
		t.Fatal(err)
	}
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
