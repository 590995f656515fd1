package policy

import (
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
	digest := sha256.New()
	var text []byte
	for _, f := range boundFacts(p) {
		text = appendText(text[:0], f.name)
		digest.Write(append(text, f.value...))
	}
	return "sha256:" + hex.EncodeToString(digest.Sum(nil))
}

// ChangedFacts names the bound facts in which two plans differ, as policies name
// them: "path", "hard_links", "exec". "file" means that the file, or its
// content, is another.
func ChangedFacts(was, is tool.Plan) []string {
	before, after := boundFacts(was), boundFacts(is)
	var names []string
	for i := range before {
		if string(before[i].value) != string(after[i].value) {
			names = append(names, before[i].name)
		}
	}
	return names
}

// EnvironmentChanged reports whether facts about the machine differ: then the
// call has to be judged again.
func EnvironmentChanged(was, is tool.Facts) bool {
	return !slices.EqualFunc(encodedFacts(environment, was), encodedFacts(environment, is), encodedFact.equal)
}

// ReadsChanged reports whether two requests differ in a fact that is not about
// the past and that a policy in force reads when it judges them.
func (s *Set) ReadsChanged(was, is Request) bool {
	before, refused := s.prepare(was)
	if refused != nil {
		return true
	}
	changed := ChangedFacts(tool.Plan{Facts: was.Facts}, tool.Plan{Facts: is.Facts})
	return slices.ContainsFunc(changed, func(name string) bool {
		a := attributeOfName(types.String(name))
		return a == 0 || before.reads.has(a)
	})
}

// encodedFact is a fact as bytes that are the same for the same value.
type encodedFact struct {
	name  string
	value []byte
}

func (f encodedFact) equal(other encodedFact) bool {
	return f.name == other.name && string(f.value) == string(other.value)
}

// boundFacts are those of a plan, always the same names in the same order.
func boundFacts(p tool.Plan) []encodedFact {
	var paths, files []byte
	for _, path := range p.Facts.Paths {
		paths = appendText(paths, path)
	}
	for _, f := range p.Files {
		files = binary.BigEndian.AppendUint64(files, f.Device)
		files = binary.BigEndian.AppendUint64(files, f.Inode)
		files = binary.BigEndian.AppendUint64(files, uint64(f.ChangedAt))
	}
	return append(encodedFacts(bound, p.Facts), encodedFact{factPaths, paths}, encodedFact{factFiles, files})
}

// encodedFacts are the facts of a kind that planning finds.
func encodedFacts(kind factKind, f tool.Facts) []encodedFact {
	c := &call{set: new(Set), request: Request{Facts: f}}
	list := make([]encodedFact, 0, len(contextFacts))
	for a, name := range callAttributes.all() {
		if fact := c.row(a); fact.kind == kind {
			list = append(list, encodedFact{string(name), appendValue(nil, fact.value(c))})
		}
	}
	return list
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
