package dns

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

// newService returns a service for the names of the rules, with addresses from 198.18.0.1 and
// fd00::1.
func newService(t testing.TB, rules ...string) *Service {
	t.Helper()
	allow := must.Get(egress.ParseRules(rules))(t)
	s := New(egress.Rules{Allow: allow}.CheckName, egress.NewConnectionLog(time.Now()))
	s.pool.begin, s.pool.prefix6 = 0, netip.MustParsePrefix("fd00::/96")
	return s
}

// query returns a query as a resolver sends it.
func query(t testing.TB, name string, kind dnsmessage.Type, change ...func(*dnsmessage.Message)) []byte {
	t.Helper()
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4711, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}},
	}
	for _, c := range change {
		c(&m)
	}
	return must.Get(m.Pack())(t)
}

// options adds an EDNS option of a version.
func options(version uint32) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) {
		var h dnsmessage.ResourceHeader
		_ = h.SetEDNS0(4096, 0, false)
		h.TTL |= version << 16
		m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{}})
	}
}

// ask returns the reply: its code and its answers.
func ask(t testing.TB, s *Service, query []byte) string {
	t.Helper()
	packed := s.answer(query)
	if packed == nil {
		return "silence"
	}
	var m dnsmessage.Message
	if err := m.Unpack(packed); err != nil {
		t.Fatalf("%v: %x", err, packed)
	}
	if !m.Response || m.ID != 4711 || m.Truncated || m.Authoritative {
		t.Errorf("header %+v", m.Header)
	}
	text := strings.TrimPrefix(m.RCode.String(), "RCode")
	for _, a := range m.Answers {
		if a.Header.TTL != ttl || a.Header.Name != m.Questions[0].Name {
			t.Errorf("answer %+v to %v", a.Header, m.Questions)
		}
		switch body := a.Body.(type) {
		case *dnsmessage.AResource:
			text += " " + netip.AddrFrom4(body.A).String()
		case *dnsmessage.AAAAResource:
			text += " " + netip.AddrFrom16(body.AAAA).String()
		default:
			t.Errorf("answer %+v", a)
		}
	}
	for _, o := range m.Additionals {
		text += fmt.Sprint(" edns ", o.Header.ExtendedRCode(m.RCode))
	}
	return text
}

// TestBlockedNames: a refused name does not exist and takes no address, and its reply says that a
// policy blocks it. Control: an allowed name.
func TestBlockedNames(t *testing.T) {
	t.Parallel()
	s := newService(t, "example.org")
	for name, want := range map[string]string{"evil.test.": "NameError", "a.example.org.": "NameError", "example.org.": "Success 198.18.0.1"} {
		if got := ask(t, s, query(t, name, dnsmessage.TypeA)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		reply := s.answer(query(t, name, dnsmessage.TypeA, options(0)))
		if got := strings.Contains(string(reply), "\x00\x0fblocked by palyra's policy"); got != (want == "NameError") {
			t.Errorf("%s: an extended error %t", name, got)
		}
	}
	if len(s.pool.hosts) != 1 {
		t.Errorf("addresses of %v", s.pool.hosts)
	}
}

// entries returns the entries of the log, one word each.
func entries(t testing.TB, s *Service) string {
	t.Helper()
	list, missed := s.log.List()
	var words []string
	for _, c := range list {
		if c.Leg != egress.LegName || c.Port != 0 || c.Address != "" {
			t.Errorf("entry %+v", c)
		}
		words = append(words, strings.TrimSuffix(c.Host+"="+c.Verdict+"/"+c.Reason, "/"))
	}
	if missed > 0 {
		words = append(words, fmt.Sprint("missed ", missed))
	}
	return strings.Join(words, " ")
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	const a, aaaa = dnsmessage.TypeA, dnsmessage.TypeAAAA
	is := func(m *dnsmessage.Message) { m.Response = true }
	class := func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }
	twice := func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }
	none := func(m *dnsmessage.Message) { m.Questions = nil }
	resource := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: dnsmessage.MustNewName("a."), Class: dnsmessage.ClassINET}, Body: &dnsmessage.AResource{}}
	for _, test := range []struct {
		name, want, ledger string
		query              []byte
	}{
		{"allowed, IPv4", "Success 198.18.0.1", "example.org=allowed", query(t, "example.org.", a)},
		{"allowed, IPv6", "Success fd00::1", "example.org=allowed", query(t, "example.org.", aaaa)},
		{"below a wildcard", "Success 198.18.0.1", "a.b.example.net=allowed", query(t, "a.b.example.net.", a)},
		{"case is kept", "Success 198.18.0.1", "example.org=allowed", query(t, "eXaMPLE.oRG.", a)},
		{"EDNS", "Success 198.18.0.1 edns RCodeSuccess", "example.org=allowed", query(t, "example.org.", a, options(0))},
		{"EDNS of another version", "Success edns 16", "", query(t, "example.org.", a, options(1))},
		{"EDNS twice", "FormatError", "", query(t, "example.org.", a, options(0), options(0))},
		{"HTTPS", "Success", "", query(t, "example.org.", 65)},
		{"SVCB", "Success", "", query(t, "example.org.", 64)},
		{"MX", "Success", "", query(t, "example.org.", dnsmessage.TypeMX)},
		{"TXT", "Refused", "example.org=denied/query_type", query(t, "example.org.", dnsmessage.TypeTXT)},
		{"ANY", "Refused", "example.org=denied/query_type", query(t, "example.org.", dnsmessage.TypeALL)},
		{"zone transfer", "Refused", "example.org=denied/query_type", query(t, "example.org.", typeAXFR)},
		{"other class", "Refused", "example.org=denied/query_type", query(t, "example.org.", a, class)},
		{"denied", "NameError", "other.example=denied/unlisted", query(t, "other.example.", a)},
		{"denied TXT", "NameError", "data.other.example=denied/unlisted", query(t, "data.other.example.", dnsmessage.TypeTXT)},
		{"reverse", "NameError", "1.0.18.198.in-addr.arpa=denied/unlisted", query(t, "1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR)},
		{"above a wildcard", "NameError", "example.net=denied/unlisted", query(t, "example.net.", a)},
		{"the root", "NameError", "=denied/unlisted", query(t, ".", dnsmessage.TypeNS)},
		{"space in the name", "NameError", "=denied/unlisted", query(t, "exam ple.org.", a)},
		{"NUL in the name", "NameError", "=denied/unlisted", query(t, "example.org\x00.", a)},
		{"not ASCII", "NameError", "=denied/unlisted", query(t, "ex\xc3\xa4mple.org.", a)},
		{"underscore", "NameError", "=denied/unlisted", query(t, "_acme.example.org.", a)},
		{"an allowed address is no name", "NameError", "=denied/unlisted", query(t, "192.0.2.1.", a)},
		{"localhost", "Success 127.0.0.1", "", query(t, "localhost.", a)},
		{"localhost, IPv6", "Success ::1", "", query(t, "LocalHost.", aaaa)},
		{"below localhost", "Success 127.0.0.1", "", query(t, "app.localhost.", a)},
		{"reply", "silence", "", query(t, "example.org.", a, is)},
		{"two questions", "FormatError", "", query(t, "example.org.", a, twice)},
		{"no question", "FormatError", "", query(t, "example.org.", a, none)},
		{"answer in the query", "FormatError", "", query(t, "example.org.", a, func(m *dnsmessage.Message) { m.Answers = []dnsmessage.Resource{resource} })},
		{"authority in the query", "FormatError", "", query(t, "example.org.", a, func(m *dnsmessage.Message) { m.Authorities = []dnsmessage.Resource{resource} })},
		{"additional address record", "FormatError", "", query(t, "example.org.", a, func(m *dnsmessage.Message) { m.Additionals = []dnsmessage.Resource{resource} })},
		{"update", "NotImplemented", "", query(t, "example.org.", a, func(m *dnsmessage.Message) { m.OpCode = 5 })},
		{"header only", "FormatError", "", query(t, "example.org.", a)[:12]},
		{"cut", "FormatError", "", query(t, "example.org.", a)[:20]},
		{"half a header", "silence", "", query(t, "example.org.", a)[:11]},
		{"nothing", "silence", "", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newService(t, "example.org", "*.example.net", "192.0.2.1")
			for range 2 { // the second query adds no entry
				if got := ask(t, s, test.query); got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			}
			if got := entries(t, s); got != test.ledger {
				t.Errorf("ledger %q, want %q", got, test.ledger)
			}
		})
	}
}

// FuzzAnswer: for any query, the reply is well-formed, repeats the question and is small. An
// address is returned only for an allowed name, and maps back to it.
func FuzzAnswer(f *testing.F) {
	f.Add(query(f, "example.org.", dnsmessage.TypeA))
	f.Add(query(f, "a.example.net.", dnsmessage.TypeAAAA, options(0)))
	f.Add(query(f, "other.example.", dnsmessage.TypeTXT, options(1)))
	f.Add([]byte("\x12\x67\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\xc0\x0c\x00\x01\x00\x01"))
	f.Fuzz(func(t *testing.T, packed []byte) {
		s := newService(t, "example.org", "*.example.net")
		reply := s.answer(packed)
		if reply == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(reply); err != nil || !m.Response || len(reply) > 512 || string(reply[:2]) != string(packed[:2]) {
			t.Fatalf("%v: %x to %x", err, reply, packed)
		}
		for _, a := range m.Answers {
			var addr netip.Addr
			switch body := a.Body.(type) {
			case *dnsmessage.AResource:
				addr = netip.AddrFrom4(body.A)
			case *dnsmessage.AAAAResource:
				addr = netip.AddrFrom16(body.AAAA)
			}
			want, err := egress.CanonicalHost(m.Questions[0].Name.String())
			host, ok := s.Lookup(addr)
			if err != nil || !isLocal(want) && (!ok || host != want || s.check(host) != "") || isLocal(want) && !addr.IsLoopback() {
				t.Errorf("%s is %s, which is %s", want, addr, host)
			}
		}
	})
}
