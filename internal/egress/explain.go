package egress

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"palyra/internal/core/text"
	"palyra/internal/core/tool"
)

// mostNamed limits the hosts that a sentence names.
const mostNamed = 8

// causes map a reason to the end of the sentence "host:port ...".
//
//nolint:gosec // these are words about secrets
var causes = map[string]string{
	ReasonDeniedRule:        "is a blocked host (policy: process_runner.denied_egress_hosts names it or its address)",
	ReasonAddressNotPublic:  "has an address that is not public: it takes a rule for that very address, and link-local, multicast and metadata addresses are never reached",
	ReasonGateway:           "is where the gateway itself listens, which nothing that it runs may reach",
	ReasonUnresolved:        "has no address",
	ReasonUnreachable:       "could not be connected to",
	ReasonNoName:            "was asked for by TLS without a server name, so that the host cannot be checked",
	ReasonNameMismatch:      "was asked for by TLS under another server name",
	ReasonBadTLS:            "takes TLS on this port, and the program sent something else",
	ReasonEncryptedName:     "was asked for with an encrypted server name, which cannot be checked",
	ReasonHostMismatch:      "got a request for another host",
	ReasonBadHTTP:           "received a malformed HTTP request",
	ReasonMethod:            "got a request whose method is not allowed there",
	ReasonPath:              "got a request whose path is not allowed there",
	ReasonUpgrade:           "got a request to change the protocol, which is not allowed",
	ReasonHeaderTooLarge:    "got a request with too large a header",
	ReasonSecondRequest:     "got a second request after CONNECT",
	ReasonSecretMisplaced:   "was sent a secret's placeholder in a place where the secret does not belong; nothing was sent",
	ReasonSecretUnverified:  "was sent a secret's placeholder over a connection that is not verified TLS; nothing was sent",
	ReasonSlow:              "was connected to, but the program did not send its request in time",
	ReasonBadSOCKS:          "was asked for with a SOCKS request other than a plain CONNECT",
	ReasonQueryType:         "was asked for with a DNS question other than for its address",
	ReasonBudgetConnections: "was not connected to, as the number of connections is used up",
	ReasonBudgetConcurrent:  "was not connected to, as too many connections are open",
	ReasonBudgetBytesOut:    "was broken off, as the budget of bytes sent is used up",
	ReasonBudgetBytesIn:     "was broken off, as the budget of bytes received is used up",
	ReasonBudgetRequests:    "was broken off, as the number of requests is used up",
	ReasonBudgetTime:        "was broken off, as a connection may not last that long",
	ReasonBudgetNames:       "was not looked up, as too many names were",
}

// Explain returns one sentence that states why a program could not reach a target, for the person
// who can fix it. It returns "" if the connection succeeded, and for a sum of several targets.
// hosts are the reachable hosts.
func Explain(c tool.Connection, hosts []string) string {
	if c.Verdict == VerdictAllowed && c.Reason == "" || c.Count > 0 && c.Host == "" {
		return ""
	}
	target := c.Host
	switch {
	case c.Host == "":
		target = "A target without a host name"
	case c.Port != 0:
		target = net.JoinHostPort(c.Host, strconv.Itoa(c.Port))
	}
	if c.Verdict == VerdictFailed && c.Reason == ReasonBadTLS {
		return target + " did not prove who it is: its certificate or its TLS cannot be verified."
	}
	if cause, known := causes[c.Reason]; known {
		return fmt.Sprintf("%s %s.", target, cause)
	}
	const next = "Ask the operator to allow it; process_runner.allowed_egress_hosts lists the hosts of programs."
	if len(hosts) == 0 {
		return fmt.Sprintf("Blocked host: %s (policy: this tool runs offline). %s", target, next)
	}
	return fmt.Sprintf("Blocked host: %s (policy: this tool may reach only %s). %s", target, Named(hosts), next)
}

// Explanations returns the distinct explanations of all connections, limited to the first few;
// missed counts the unlisted connections.
func Explanations(list []tool.Connection, missed int, hosts []string) []string {
	const most = 8
	var sentences []string
	told := make(map[string]bool)
	for _, c := range list {
		sentence := Explain(c, hosts)
		if sentence == "" || told[sentence] {
			continue
		}
		told[sentence] = true
		if len(sentences) < most {
			sentences = append(sentences, sentence)
		}
	}
	if more := len(told) - len(sentences); more > 0 || missed > 0 {
		sentences = append(sentences, fmt.Sprintf("More was kept from the network: %d other hosts or reasons, and %s that were not recorded one by one.", more, text.Plural(missed, "connection")))
	}
	return sentences
}

// Named lists hosts for a sentence: the first mostNamed by name, and the number of the others.
func Named(hosts []string) string {
	if len(hosts) <= mostNamed {
		return strings.Join(hosts, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(hosts[:mostNamed], ", "), len(hosts)-mostNamed)
}

// Alarming reports whether a reason means an attempt to extract a secret.
func Alarming(reason string) bool {
	return reason == ReasonSecretMisplaced || reason == ReasonSecretUnverified
}

// Explain returns the sentence of the function Explain for the connection's current outcome.
func (e *Entry) Explain(hosts []string) string {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	return Explain(e.connection(e.started, e.started), hosts)
}
