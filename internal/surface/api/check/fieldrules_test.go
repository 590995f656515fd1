package check

import (
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
)

func readRules(t *testing.T) *Rules {
	t.Helper()
	return must.Get(ReadRules(palyrav1.File_palyra_v1_gateway_proto.Package()))(t)
}

// Messages of every type get the same result, word for word, as from the maintained
// implementation. First each field is set alone to each value at and around the bounds of
// rules, so that every kind of rule is violated. Then many fields are set at random.
func TestAgreesWithProtovalidate(t *testing.T) {
	t.Parallel()
	rules := readRules(t)
	want := must.Get(protovalidate.New())(t)
	random := rand.New(rand.NewPCG(1, 2))
	var said strings.Builder
	compare := func(m protoreflect.Message) {
		theirs, ours := text(want.Validate(m.Interface())), text(rules.Check(m.Interface()))
		if theirs != ours {
			t.Fatalf("%s %v:\n%s\nand here:\n%s", m.Descriptor().FullName(), m, theirs, ours)
		}
		said.WriteString(ours)
	}
	for _, name := range slices.Sorted(maps.Keys(rules.messages)) {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			continue // the entries of a map
		}
		for m := range alone(kind) {
			compare(m)
		}
		for range 15 {
			m := kind.New()
			fill(random, m, 3)
			compare(m)
		}
	}
	for _, kind := range []string{
		"must be 26 characters", "must be at least 1 characters", "must be at most 128 characters", "must be at most 4096 bytes",
		"does not match regex", "must be in list", "must be at least 1 bytes", "must be at most 65536 bytes", "at least 1 item(s)", "no more than 64 item(s)",
		"greater than or equal to 0 and less than", "greater than or equal to 1", "defined enum values", "equal to 0s", "value is required", "required in oneof", "[0].",
	} {
		if !strings.Contains(said.String(), kind) {
			t.Errorf("no message broke a rule that says %q", kind)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// alone yields an empty message, and messages with one field set, for each field and each of
// its values. A list has each of the lengths, with the values in turn.
func alone(kind protoreflect.MessageType) iter.Seq[protoreflect.Message] {
	return func(yield func(protoreflect.Message) bool) {
		if !yield(kind.New()) {
			return
		}
		fields := kind.Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if f.IsMap() {
				continue
			}
			for _, v := range valuesAlone(f, kind.New()) {
				m := kind.New()
				m.Set(f, v)
				if !yield(m) {
					return
				}
			}
		}
	}
}

func valuesAlone(f protoreflect.FieldDescriptor, m protoreflect.Message) []protoreflect.Value {
	if !f.IsList() {
		return values(f, func() protoreflect.Value { return m.NewField(f) }, sizes)
	}
	var lists []protoreflect.Value
	for _, length := range lengths {
		list := m.NewField(f).List()
		elements := values(f, list.NewElement, sizes[:4])
		for i := range length {
			list.Append(elements[i%len(elements)])
		}
		lists = append(lists, protoreflect.ValueOfList(list))
	}
	return lists
}

// lengths are the lengths of lists.
var lengths = []int{0, 1, 2, 3, 65, 257}

// fill sets fields to values at and around the bounds of rules.
func fill(random *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.IsMap() || random.IntN(4) == 0 {
			continue
		}
		if !f.IsList() {
			if v, ok := pick(random, values(f, func() protoreflect.Value { return m.NewField(f) }, sizes), depth); ok {
				m.Set(f, v)
			}
			continue
		}
		list := m.NewField(f).List()
		for range lengths[random.IntN(len(lengths))] {
			if v, ok := pick(random, values(f, list.NewElement, sizes[:4]), depth-2); ok {
				list.Append(v)
			}
		}
		m.Set(f, protoreflect.ValueOfList(list))
	}
}

// pick returns one of the values, filled if it is a message.
func pick(random *rand.Rand, among []protoreflect.Value, depth int) (protoreflect.Value, bool) {
	if len(among) == 0 {
		return protoreflect.Value{}, false
	}
	v := among[random.IntN(len(among))]
	if m, ok := v.Interface().(protoreflect.Message); ok && depth > 0 && m.Descriptor().FullName() != "google.protobuf.Duration" {
		fill(random, m, depth-1)
	}
	return v, true
}

// sizes are the lengths of strings, in characters.
var sizes = []int{0, 1, 26, 65, 27, 32, 33, 64, 128, 129, 192, 193, 512, 513, 1025}

var words = []string{"", "user", "cli", "sha256:" + strings.Repeat("a", 64), "alice", "fs.read", "A b", strings.Repeat("b", 4097)}

// texts are words and then two strings of each of sizes; byteStrings has one of each. They are
// created once, because they are used some hundred thousand times.
var texts = sync.OnceValue(func() (all []protoreflect.Value) {
	for _, word := range words {
		all = append(all, protoreflect.ValueOfString(word))
	}
	for _, size := range sizes {
		all = append(all, protoreflect.ValueOfString(strings.Repeat("ž", size)), protoreflect.ValueOfString(strings.Repeat("a", size)))
	}
	return all
})

var byteStrings = sync.OnceValue(func() (all []protoreflect.Value) {
	for _, size := range sizes {
		all = append(all, protoreflect.ValueOfBytes(make([]byte, size*64)))
	}
	return all
})

// values returns the values of a field, or of an element of a list, at and around the bounds of
// rules. Values of sizes come first.
func values(f protoreflect.FieldDescriptor, empty func() protoreflect.Value, sizes []int) []protoreflect.Value {
	numbers := []int64{-2, -1, 0, 1, 100, 500, 501, 1000, 1001}
	var all []protoreflect.Value
	switch f.Kind() {
	case protoreflect.StringKind:
		return texts()[:len(words)+2*len(sizes)]
	case protoreflect.BytesKind:
		return byteStrings()[:len(sizes)]
	case protoreflect.EnumKind:
		for number := range protoreflect.EnumNumber(40) {
			all = append(all, protoreflect.ValueOfEnum(number))
		}
	case protoreflect.Int32Kind:
		for _, number := range numbers {
			all = append(all, protoreflect.ValueOfInt32(int32(number)))
		}
	case protoreflect.Int64Kind:
		for _, number := range numbers {
			all = append(all, protoreflect.ValueOfInt64(number))
		}
	case protoreflect.MessageKind:
		if _, ok := empty().Message().Interface().(*durationpb.Duration); !ok {
			return append(all, empty())
		}
		for _, number := range numbers {
			v := empty()
			v.Message().Interface().(*durationpb.Duration).Seconds = number
			all = append(all, v)
		}
	}
	return all
}

// A rule of a kind that would not be checked is refused.
func TestUnknownKindsAreRefused(t *testing.T) {
	t.Parallel()
	text := (&palyrav1.CallToolRequest{}).ProtoReflect().Descriptor().Fields().ByName("tool")
	for name, rules := range map[string]*validate.FieldRules{
		"prefix":  {Type: &validate.FieldRules_String_{String_: &validate.StringRules{Prefix: proto.String("a")}}},
		"ignore":  {Ignore: validate.Ignore_IGNORE_ALWAYS.Enum()},
		"cel":     {CelExpression: []string{"true"}},
		"bool":    {Type: &validate.FieldRules_Bool{Bool: &validate.BoolRules{Const: proto.Bool(true)}}},
		"gt":      {Type: &validate.FieldRules_Int32{Int32: &validate.Int32Rules{GreaterThan: &validate.Int32Rules_Gt{Gt: 1}}}},
		"unique":  {Type: &validate.FieldRules_Repeated{Repeated: &validate.RepeatedRules{Unique: proto.Bool(true)}}},
		"1s":      {Type: &validate.FieldRules_Duration{Duration: &validate.DurationRules{GreaterThan: &validate.DurationRules_Gte{Gte: &durationpb.Duration{Seconds: 1}}}}},
		"missing": {Type: &validate.FieldRules_String_{String_: &validate.StringRules{Pattern: proto.String("a(")}}},
	} {
		if _, _, err := checksOf(text, rules); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := checksOf(text, &validate.FieldRules{Type: &validate.FieldRules_String_{String_: &validate.StringRules{MinLen: proto.Uint64(1)}}}); err != nil {
		t.Error("a known kind is refused:", err)
	}
}

// Every field of a request has its own upper bound, below the bound of the whole message. Pages
// have at most 1000 entries.
func TestRequestsAreBounded(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, name := range slices.Sorted(maps.Keys(readRules(t).messages)) {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil || !strings.HasSuffix(string(name), "Request") {
			continue
		}
		fields := kind.Descriptor().Fields()
		for i := range fields.Len() {
			f := fields.Get(i)
			if seen++; !bounded(f) && f.Name() != "input_json" { // more than 1 MiB is a refused proposal, which is journaled
				t.Errorf("%s has no upper bound", f.FullName())
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d fields of requests were looked at", seen)
	}
}

func bounded(f protoreflect.FieldDescriptor) bool {
	rules, _ := proto.GetExtension(f.Options(), validate.E_Field).(*validate.FieldRules)
	one := rules
	if f.IsList() {
		if one = rules.GetRepeated().GetItems(); rules.GetRepeated().MaxItems == nil {
			return false
		}
	}
	switch {
	case f.Kind() == protoreflect.StringKind:
		s := one.GetString()
		return s.HasMaxLen() || s.HasMaxBytes() || s.HasLen() || s.HasPattern() || len(s.GetIn()) > 0
	case f.Kind() == protoreflect.BytesKind:
		return one.GetBytes().HasMaxLen() || one.GetBytes().HasLen()
	case f.Name() == "page_size":
		return one.GetInt32().HasLte() && one.GetInt32().GetLte() <= 1000
	}
	return true
}
