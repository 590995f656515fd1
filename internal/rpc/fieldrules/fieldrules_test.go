package fieldrules

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/must"
)

func read(t *testing.T) *Rules {
	t.Helper()
	return must.Get(Read(palyrav1.File_palyra_v1_gateway_proto.Package()))(t)
}

// Random messages of every type get the same answer as from the maintained
// implementation, word for word, and every kind of rule is broken at times.
func TestAgreesWithProtovalidate(t *testing.T) {
	rules := read(t)
	want := must.Get(protovalidate.New())(t)
	random := rand.New(rand.NewPCG(1, 2))
	var said strings.Builder
	for _, name := range slices.Sorted(maps.Keys(rules.messages)) {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
		if err != nil {
			continue // the entries of a map
		}
		for range 25 {
			m := kind.New()
			fill(random, m, 3)
			theirs, ours := text(want.Validate(m.Interface())), text(rules.Check(m.Interface()))
			if theirs != ours {
				t.Fatalf("%s %v:\n%s\nand here:\n%s", name, m, theirs, ours)
			}
			said.WriteString(ours)
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

// fill sets fields to values at and around the bounds of rules.
func fill(random *rand.Rand, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if f.IsMap() || random.IntN(4) == 0 {
			continue
		}
		if !f.IsList() {
			if v, ok := value(random, f, func() protoreflect.Value { return m.NewField(f) }, sizes, depth); ok {
				m.Set(f, v)
			}
			continue
		}
		list := m.NewField(f).List()
		for range []int{0, 1, 2, 3, 65, 257}[random.IntN(6)] {
			if v, ok := value(random, f, list.NewElement, sizes[:4], depth-2); ok {
				list.Append(v)
			}
		}
		m.Set(f, protoreflect.ValueOfList(list))
	}
}

// sizes are those of texts.
var sizes = []int{0, 1, 26, 65, 27, 32, 33, 64, 128, 129, 512, 513, 1025}

func value(random *rand.Rand, f protoreflect.FieldDescriptor, empty func() protoreflect.Value, sizes []int, depth int) (protoreflect.Value, bool) {
	number := []int64{-2, -1, 0, 1, 100, 500, 501, 1000, 1001}[random.IntN(9)]
	switch size := sizes[random.IntN(len(sizes))]; f.Kind() {
	case protoreflect.StringKind:
		words := []string{"", "user", "cli", "sha256:" + strings.Repeat("a", 64), "alice", "fs.read", "A b", strings.Repeat("b", 4097), strings.Repeat("ž", size), strings.Repeat("a", size)}
		return protoreflect.ValueOfString(words[random.IntN(len(words))]), true
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(make([]byte, size*64)), true
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(random.IntN(40))), true
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(number)), true
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(number), true
	case protoreflect.MessageKind:
		v := empty()
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok {
			d.Seconds = number
		} else if depth > 0 {
			fill(random, v.Message(), depth-1)
		}
		return v, true
	}
	return protoreflect.Value{}, false
}

// A rule that would be stated and not checked is refused.
func TestUnknownKindsAreRefused(t *testing.T) {
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
