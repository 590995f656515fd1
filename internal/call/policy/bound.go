package policy

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/core/canonical"
	"palyra/internal/core/tool"
)

// Facts of a plan without a row in the table: policy reads Paths one by one as context.path,
// and does not read Files.
const (
	factPaths = "paths"
	factFiles = "file"
)

// BoundDigest returns the digest of the plan data that policy judged and that must be the same
// when the call runs. It has the form "sha256:<hex>" and covers the bound facts of the table,
// the paths, and the identities of the inspected files. It exists only in the permit and is not
// stored.
func BoundDigest(p *tool.Plan) string {
	var room [1024]byte // enough for most calls, so that nothing is allocated
	text, r := room[:0], &Request{Facts: p.Facts}
	for _, f := range boundFacts {
		text = appendText(text, f.name)
		text = f.appendTo(text, r, p.Files)
	}
	return canonical.Digest(text)
}

// ChangedFacts names the bound facts in which two plans differ, by their policy names: "path",
// "hard_links", "exec". "file" means that the file or its content differs.
func ChangedFacts(was, is tool.Plan) []string { return changed(boundFacts, &was, &is) }

func changed(facts []planFact, was, is *tool.Plan) []string {
	var names []string
	before, after := &Request{Facts: was.Facts}, &Request{Facts: is.Facts}
	var room [2][256]byte // as in BoundDigest
	one, other := room[0][:0], room[1][:0]
	for _, f := range facts {
		one, other = f.appendTo(one[:0], before, was.Files), f.appendTo(other[:0], after, is.Files)
		if !bytes.Equal(one, other) {
			names = append(names, f.name)
		}
	}
	return names
}

// ReadsChanged reports whether two requests differ in a fact that a policy in force reads for
// them, except for facts about the past.
func (s *Set) ReadsChanged(was, is Request) bool {
	before, refused := s.evaluator.prepare(&was)
	if refused != nil {
		return true
	}
	names := ChangedFacts(tool.Plan{Facts: was.Facts}, tool.Plan{Facts: is.Facts})
	return slices.ContainsFunc(names, func(name string) bool {
		a := attributeOfName(types.String(name))
		return a == 0 || before.reads.has(a)
	})
}

// planFact is a fact of a plan: a row of the table, or one named by factPaths or factFiles.
type planFact struct {
	name string
	row  *contextFact
}

// boundFacts are the bound facts that planning determines: those of the table, in its order, and
// those without a row.
var boundFacts = append(factsOfKind(bound), planFact{name: factPaths}, planFact{name: factFiles})

// factsOfKind returns the facts of a kind that planning determines.
func factsOfKind(kind factKind) []planFact {
	var list []planFact
	for a, name := range planAttributes.all() {
		if row := &contextFacts[a.index()]; row.kind == kind {
			list = append(list, planFact{string(name), row})
		}
	}
	return list
}

// appendTo appends an injective encoding of the fact.
func (f planFact) appendTo(b []byte, r *Request, files []tool.FileIdentity) []byte {
	switch {
	case f.row != nil:
		return f.row.appendTo(b, r, f.row.parts)
	case f.name == factPaths:
		return appendTexts(b, r.Facts.Paths)
	}
	for _, file := range files {
		b = binary.BigEndian.AppendUint64(b, file.Device)
		b = binary.BigEndian.AppendUint64(b, file.Inode)
		b = binary.BigEndian.AppendUint64(b, uint64(file.ChangedAt))
	}
	return b
}

// appendTo appends an encoding of the value that the method value converts to Cedar. It
// supports the types that occur in plans and in the past of a session. Each value is prefixed
// with its type and length, so that the concatenation is unambiguous.
func (f *Fact) appendTo(b []byte, r *Request, parts []part) []byte {
	switch at := f.at(r).(type) {
	case nil:
		return append(b, 'n')
	case *string:
		if f.optional() && *at == "" {
			return append(b, 'n')
		}
		return appendText(append(b, 's'), *at)
	case *bool:
		if *at {
			return append(b, 't')
		}
		return append(b, 'f')
	case *int:
		if f.optional() && *at == 0 {
			return append(b, 'n')
		}
		return appendNumber(b, int64(*at))
	case *int64:
		return appendNumber(b, *at)
	case *[]string:
		return appendTexts(append(b, '['), asSet(*at))
	case record:
		b = append(b, '{')
		for _, p := range parts {
			b = p.appendTo(b, r, nil)
		}
		return b
	default:
		panic("policy: no bytes are made of the fact " + f.Name)
	}
}

func appendNumber(b []byte, n int64) []byte {
	return binary.BigEndian.AppendUint64(append(b, 'v'), uint64(n))
}

// asSet sorts texts and removes duplicates, in a copy unless they already form a sorted set.
func asSet(list []string) []string {
	for i := 1; i < len(list); i++ {
		if list[i-1] >= list[i] {
			list = slices.Clone(list)
			slices.Sort(list)
			return slices.Compact(list)
		}
	}
	return list
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, text := range list {
		b = appendText(b, text)
	}
	return b
}

// appendText appends a text with a length prefix.
func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}
