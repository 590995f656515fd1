package dns

import (
	"errors"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"

	"palyra/internal/egress"
)

// Types of questions that dnsmessage has no name for (RFC 1995, RFC 5936).
const (
	typeIXFR dnsmessage.Type = 251
	typeAXFR dnsmessage.Type = 252
)

// ttl is in seconds. It is short, so that programs query again and do not cache an address.
const ttl = 1

// badVersion is the extended code for an unknown EDNS version (RFC 6891, section 9).
const badVersion dnsmessage.RCode = 16

// question holds the relevant parts of a query.
type question struct {
	dnsmessage.Question
	// edns is true if the client uses EDNS, and expects it in the reply.
	edns        bool
	ednsVersion uint8
}

// answer returns the reply to a message, or nil if the message gets no reply. The reply always
// fits into a datagram of any client.
func (s *Service) answer(query []byte) []byte {
	var p dnsmessage.Parser
	asked, err := p.Start(query)
	if err != nil || asked.Response {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{
		ID: asked.ID, Response: true, OpCode: asked.OpCode, RecursionDesired: asked.RecursionDesired, RecursionAvailable: true,
	}}
	q, err := parse(&p)
	switch {
	case asked.OpCode != 0:
		reply.RCode = dnsmessage.RCodeNotImplemented
	case err != nil:
		reply.RCode = dnsmessage.RCodeFormatError
	default:
		s.fill(&reply, q)
	}
	packed, err := reply.Pack()
	if err != nil {
		return nil
	}
	return packed
}

var errFormat = errors.New("malformed")

// parse reads a query with one question and at most the options of EDNS.
func parse(p *dnsmessage.Parser) (question, error) {
	var q question
	var err error
	if q.Question, err = p.Question(); err != nil {
		return q, err
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, errFormat
	}
	if _, err := p.AnswerHeader(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, errFormat
	}
	if _, err := p.AuthorityHeader(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, errFormat
	}
	for {
		header, err := p.AdditionalHeader()
		switch {
		case errors.Is(err, dnsmessage.ErrSectionDone):
			return q, nil
		case err != nil:
			return q, err
		case header.Type != dnsmessage.TypeOPT || q.edns || header.Name.String() != ".":
			return q, errFormat
		}
		q.edns, q.ednsVersion = true, uint8(header.TTL>>16&0xff)
		if err := p.SkipAdditional(); err != nil {
			return q, err
		}
	}
}

// fill answers a question. The question and the name in the answer keep their case, because some
// clients compare it.
func (s *Service) fill(reply *dnsmessage.Message, q question) {
	reply.Questions = []dnsmessage.Question{q.Question}
	code, body := badVersion, dnsmessage.ResourceBody(nil)
	if q.ednsVersion == 0 {
		code, body = s.resolve(q.Question)
	}
	reply.RCode = code & 0xf
	if body != nil {
		header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: ttl}
		reply.Answers = []dnsmessage.Resource{{Header: header, Body: body}}
	}
	if q.edns {
		var options dnsmessage.ResourceHeader
		if options.SetEDNS0(mostQuery, code, false) == nil {
			reply.Additionals = []dnsmessage.Resource{{Header: options, Body: &dnsmessage.OPTResource{Options: s.explanation(q.Question)}}}
		}
	}
}

// resolve answers a question. A missing record type of an existing name has an empty answer.
func (s *Service) resolve(q dnsmessage.Question) (dnsmessage.RCode, dnsmessage.ResourceBody) {
	host, err := egress.CanonicalHost(q.Name.String())
	if _, isAddress := host.Addr(); err != nil || isAddress {
		s.refuse(egress.Host{}, egress.ReasonUnlisted)
		return dnsmessage.RCodeNameError, nil
	}
	if q.Class != dnsmessage.ClassINET {
		s.refuse(host, egress.ReasonQueryType)
		return dnsmessage.RCodeRefused, nil
	}
	local := isLocal(host)
	if why := s.check(host); !local && why != "" {
		s.refuse(host, why)
		return dnsmessage.RCodeNameError, nil
	}
	switch q.Type {
	case dnsmessage.TypeA, dnsmessage.TypeAAAA:
	case dnsmessage.TypeTXT, dnsmessage.TypePTR, dnsmessage.TypeALL, typeAXFR, typeIXFR:
		s.refuse(host, egress.ReasonQueryType)
		return dnsmessage.RCodeRefused, nil
	default:
		return dnsmessage.RCodeSuccess, nil
	}
	four, six := netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()
	if !local {
		var ok bool
		if four, six, ok = s.addresses(host); !ok {
			s.refuse(host, egress.ReasonBudgetNames)
			return dnsmessage.RCodeRefused, nil
		}
	}
	if q.Type == dnsmessage.TypeA {
		return dnsmessage.RCodeSuccess, &dnsmessage.AResource{A: four.As4()}
	}
	return dnsmessage.RCodeSuccess, &dnsmessage.AAAAResource{AAAA: six.As16()}
}

// The option of extended errors, and its code for a name that a policy blocks (RFC 8914, sections 2
// and 4.16).
const (
	extendedError = 15
	blocked       = 15
)

// explanation returns the option that names the policy for a refused name.
func (s *Service) explanation(q dnsmessage.Question) []dnsmessage.Option {
	host, err := egress.CanonicalHost(q.Name.String())
	if err != nil || isLocal(host) || s.check(host) == "" {
		return nil
	}
	const text = "blocked by palyra's policy: see process_runner.allowed_egress_hosts"
	return []dnsmessage.Option{{Code: extendedError, Data: append([]byte{0, blocked}, text...)}}
}

// isLocal reports names that mean the sandbox itself (RFC 6761, section 6.3). They are never
// resolved by a server.
func isLocal(h egress.Host) bool {
	return h.String() == "localhost" || strings.HasSuffix(h.String(), ".localhost")
}
