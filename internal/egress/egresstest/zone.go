package egresstest

import (
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// Zone holds the records of a name server.
type Zone struct {
	mu    sync.Mutex
	lists map[string][]string
	asked map[dnsmessage.Question]int
}

// NewZone returns a zone with the given names, each with the lists for Set.
func NewZone(names map[string][]string) *Zone {
	z := &Zone{lists: map[string][]string{}, asked: map[dnsmessage.Question]int{}}
	for name, lists := range names {
		z.Set(name, lists...)
	}
	return z
}

// Set sets the addresses of a name: one space-separated list for each query, of which the last is
// repeated. "cname:" and a name is an alias, to which the rest of its list belongs.
func (z *Zone) Set(name string, lists ...string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.lists[name] = lists
}

// Repeated returns the questions that were answered more than once, in the form "A
// example.org.". A lookup sends one question for A and one for AAAA.
func (z *Zone) Repeated() []string {
	z.mu.Lock()
	defer z.mu.Unlock()
	var list []string
	for q, times := range z.asked {
		if times > 1 {
			list = append(list, strings.TrimPrefix(q.Type.String(), "Type")+" "+q.Name.String())
		}
	}
	return list
}

// Answer returns the reply to a query. It is a function for NewNameServer.
func (z *Zone) Answer(query []byte) []byte {
	var m dnsmessage.Message
	if m.Unpack(query) != nil || len(m.Questions) != 1 {
		return nil
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	list, known := z.look(m.Questions[0])
	if !known {
		m.RCode = dnsmessage.RCodeNameError
	}
	m.Answers = records(m.Questions[0], strings.Fields(list))
	packed, err := m.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// look counts a question and returns its list.
func (z *Zone) look(q dnsmessage.Question) (list string, known bool) {
	z.mu.Lock()
	defer z.mu.Unlock()
	lists := z.lists[strings.TrimSuffix(q.Name.String(), ".")]
	if len(lists) == 0 {
		return "", false
	}
	z.asked[q]++
	return lists[min(z.asked[q], len(lists))-1], true
}

// records returns the records of a list that match a question.
func records(q dnsmessage.Question, list []string) []dnsmessage.Resource {
	var out []dnsmessage.Resource
	name := q.Name
	for _, text := range list {
		head := dnsmessage.ResourceHeader{Name: name, Class: q.Class, TTL: 1}
		if alias, ok := strings.CutPrefix(text, "cname:"); ok {
			name = dnsmessage.MustNewName(alias + ".")
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.CNAMEResource{CNAME: name}})
			continue
		}
		switch addr := netip.MustParseAddr(text); {
		case q.Type == dnsmessage.TypeA && addr.Is4():
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.AResource{A: addr.As4()}})
		case q.Type == dnsmessage.TypeAAAA && addr.Is6():
			out = append(out, dnsmessage.Resource{Header: head, Body: &dnsmessage.AAAAResource{AAAA: addr.As16()}})
		}
	}
	return out
}
