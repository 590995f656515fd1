package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/cedar-policy/cedar-go/types"

	"palyra/internal/tool"
)

// The facts of a plan that no row of the table has: policy reads Paths one by
// one as context.path, and Files not at all.
const (
	factPaths = "paths"
	factFiles = "file"
)

// BoundDigest is the digest of everything that policy judged of a plan and that
// has to be the same when the call runs: "sha256:<hex>" over the bound facts of
// the table, the paths, and which files were looked at.
func BoundDigest(p tool.Plan) string {
	var room [1024]byte // enough for most calls, so that nothing is allocated
	text, c := room[:0], planned(p)
	for _, f := range boundFacts {
		text = appendText(text, f.name)
		text = f.encode(text, c, p)
	}
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ChangedFacts names the bound facts in which two plans differ, as policies name
// them: "path", "hard_links", "exec". "file" means that the file, or its
// content, is another.
func ChangedFacts(was, is tool.Plan) []string { return changed(boundFacts, was, is) }

// EnvironmentChanged reports whether facts about the machine differ: then the
// call has to be judged again.
func EnvironmentChanged(was, is tool.Facts) bool {
	return len(changed(environmentFacts, tool.Plan{Facts: was}, tool.Plan{Facts: is})) > 0
}

func changed(facts []planFact, was, is tool.Plan) []string {
	var names []string
	before, after := planned(was), planned(is)
	var room [2][256]byte // as in BoundDigest
	one, other := room[0][:0], room[1][:0]
	for _, f := range facts {
		one, other = f.encode(one[:0], before, was), f.encode(other[:0], after, is)
		if !bytes.Equal(one, other) {
			names = append(names, f.name)
		}
	}
	return names
}

// ReadsChanged reports whether two requests differ in a fact that is not about
// the past and that a policy in force reads when it judges them.
func (s *Set) ReadsChanged(was, is Request) bool {
	before, refused := s.prepare(was)
	if refused != nil {
		return true
	}
	names := ChangedFacts(tool.Plan{Facts: was.Facts}, tool.Plan{Facts: is.Facts})
	return slices.ContainsFunc(names, func(name string) bool {
		a := attributeOfName(types.String(name))
		return a == 0 || before.reads.has(a)
	})
}

// planFact is something that a plan says, and how it is written as bytes that are
// the same for the same value.
type planFact struct {
	name   string
	encode func(b []byte, c *call, p tool.Plan) []byte
}

// boundFacts and environmentFacts are those of the table that planning finds, in
// its order; the bound ones with what no row has.
var (
	boundFacts = append(factsOfKind(bound), planFact{factPaths, func(b []byte, _ *call, p tool.Plan) []byte {
		return appendTexts(b, p.Facts.Paths)
	}}, planFact{factFiles, func(b []byte, _ *call, p tool.Plan) []byte {
		for _, f := range p.Files {
			b = binary.BigEndian.AppendUint64(b, f.Device)
			b = binary.BigEndian.AppendUint64(b, f.Inode)
			b = binary.BigEndian.AppendUint64(b, uint64(f.ChangedAt))
		}
		return b
	}})
	environmentFacts = factsOfKind(environment)
)

// factsOfKind are the facts of a kind that planning finds.
func factsOfKind(kind factKind) []planFact {
	var list []planFact
	for a, name := range planAttributes.all() {
		if contextFacts[a.index()].kind == kind {
			list = append(list, planFact{string(name), func(b []byte, c *call, _ tool.Plan) []byte {
				return appendValue(b, c.fact(a))
			}})
		}
	}
	return list
}

// planned is a call of which no more is known than its plan.
func planned(p tool.Plan) *call {
	return &call{request: Request{Facts: p.Facts}}
}

// appendValue writes a Cedar value so that equal values give equal bytes, and
// different ones different bytes. Cedar's own text has sets in no order.
func appendValue(b []byte, v types.Value) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, 'n')
	case types.Set:
		elements := make([]string, 0, v.Len())
		for element := range v.All() {
			elements = append(elements, string(appendValue(nil, element)))
		}
		slices.Sort(elements)
		return appendTexts(append(b, '['), elements)
	case types.Record:
		fields := make([]string, 0, v.Len())
		for name, value := range v.All() {
			fields = append(fields, string(appendValue(appendText(nil, string(name)), value)))
		}
		slices.Sort(fields)
		return appendTexts(append(b, '{'), fields)
	case types.String:
		return appendText(append(b, 's'), string(v))
	default:
		return appendText(append(b, 'v'), string(v.MarshalCedar()))
	}
}

func appendTexts(b []byte, list []string) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(list)))
	for _, text := range list {
		b = appendText(b, text)
	}
	return b
}

// appendText writes a text with its length before it.
func appendText(b []byte, text string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(text))), text...)
}
