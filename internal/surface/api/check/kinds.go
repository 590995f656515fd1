package check

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
)

// checksOf returns the checks of a field as a whole and, for a list, of its
// elements.
func checksOf(d protoreflect.FieldDescriptor, r *validate.FieldRules) (whole, items []check, err error) {
	if r == nil {
		return nil, nil, nil
	}
	if err := onlyKnown(r, "required", "string", "bytes", "int32", "int64", "enum", "duration", "repeated"); err != nil {
		return nil, nil, err
	}
	switch {
	case r.GetString() != nil:
		whole, err = ofString(r.GetString())
	case r.GetBytes() != nil:
		whole, err = ofBytes(r.GetBytes())
	case r.GetInt32() != nil:
		whole, err = ofInt(r.GetInt32())
	case r.GetInt64() != nil:
		whole, err = ofInt(r.GetInt64())
	case r.GetEnum() != nil:
		whole, err = ofEnum(d.Enum(), r.GetEnum())
	case r.GetDuration() != nil:
		whole, err = ofDuration(r.GetDuration())
	case r.GetRepeated() != nil:
		whole, err = ofList(r.GetRepeated())
		if err == nil {
			items, _, err = checksOf(d, r.GetRepeated().GetItems())
		}
	}
	return whole, items, err
}

// onlyKnown returns an error if a rule is set that is not in known.
func onlyKnown(rules proto.Message, known ...protoreflect.Name) error {
	var err error
	rules.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if !slices.Contains(known, f.Name()) {
			err = fmt.Errorf("unsupported kind of rule: %s", f.FullName())
		}
		return err == nil
	})
	if len(rules.ProtoReflect().GetUnknown()) > 0 {
		err = fmt.Errorf("unknown kind of rule: %s", rules.ProtoReflect().Descriptor().FullName())
	}
	return err
}

// within returns the check of a size, or nil if the rule is not set. sentence is the format of
// its error text.
func within(size func(protoreflect.Value) int, has bool, limit uint64, breaks func(size, limit uint64) bool, sentence string) []check {
	if !has {
		return nil
	}
	say := fmt.Sprintf(sentence, limit)
	return []check{func(v protoreflect.Value) string {
		if breaks(uint64(size(v)), limit) {
			return say
		}
		return ""
	}}
}

func differs(size, limit uint64) bool { return size != limit }
func below(size, limit uint64) bool   { return size < limit }
func above(size, limit uint64) bool   { return size > limit }

func ofString(r *validate.StringRules) ([]check, error) {
	if err := onlyKnown(r, "len", "min_len", "max_len", "max_bytes", "pattern", "in"); err != nil {
		return nil, err
	}
	characters := func(v protoreflect.Value) int { return utf8.RuneCountInString(v.String()) }
	bytes := func(v protoreflect.Value) int { return len(v.String()) }
	checks := slices.Concat(
		within(characters, r.HasLen(), r.GetLen(), differs, "must be %d characters"),
		within(characters, r.HasMinLen(), r.GetMinLen(), below, "must be at least %d characters"),
		within(characters, r.HasMaxLen(), r.GetMaxLen(), above, "must be at most %d characters"),
		within(bytes, r.HasMaxBytes(), r.GetMaxBytes(), above, "must be at most %d bytes"),
	)
	if r.HasPattern() {
		form, err := regexp.Compile(r.GetPattern())
		if err != nil {
			return nil, err
		}
		checks = append(checks, func(v protoreflect.Value) string {
			if !form.MatchString(v.String()) {
				return fmt.Sprintf("does not match regex pattern `%s`", form)
			}
			return ""
		})
	}
	if in := r.GetIn(); len(in) > 0 {
		checks = append(checks, func(v protoreflect.Value) string {
			if !slices.Contains(in, v.String()) {
				return "must be in list [" + strings.Join(in, ", ") + "]"
			}
			return ""
		})
	}
	return checks, nil
}

func ofBytes(r *validate.BytesRules) ([]check, error) {
	size := func(v protoreflect.Value) int { return len(v.Bytes()) }
	return slices.Concat(
		within(size, r.HasLen(), r.GetLen(), differs, "must be %d bytes"),
		within(size, r.HasMinLen(), r.GetMinLen(), below, "must be at least %d bytes"),
		within(size, r.HasMaxLen(), r.GetMaxLen(), above, "must be at most %d bytes"),
	), onlyKnown(r, "len", "min_len", "max_len")
}

func ofList(r *validate.RepeatedRules) ([]check, error) {
	size := func(v protoreflect.Value) int { return v.List().Len() }
	return slices.Concat(
		within(size, r.HasMinItems(), r.GetMinItems(), below, "must contain at least %d item(s)"),
		within(size, r.HasMaxItems(), r.GetMaxItems(), above, "must contain no more than %d item(s)"),
	), onlyKnown(r, "min_items", "max_items", "items")
}

// intRules are validate.Int32Rules and validate.Int64Rules.
type intRules[T int32 | int64] interface {
	proto.Message
	HasGte() bool
	GetGte() T
	HasLte() bool
	GetLte() T
}

func ofInt[T int32 | int64](r intRules[T]) ([]check, error) {
	var parts []string
	if r.HasGte() {
		parts = append(parts, fmt.Sprintf("greater than or equal to %d", r.GetGte()))
	}
	if r.HasLte() {
		parts = append(parts, fmt.Sprintf("less than or equal to %d", r.GetLte()))
	}
	say := "must be " + strings.Join(parts, " and ")
	return []check{func(v protoreflect.Value) string {
		if n := v.Int(); r.HasGte() && n < int64(r.GetGte()) || r.HasLte() && n > int64(r.GetLte()) {
			return say
		}
		return ""
	}}, onlyKnown(r, "gte", "lte")
}

func ofEnum(d protoreflect.EnumDescriptor, r *validate.EnumRules) ([]check, error) {
	if !r.GetDefinedOnly() {
		return nil, onlyKnown(r, "defined_only")
	}
	return []check{func(v protoreflect.Value) string {
		if d.Values().ByNumber(v.Enum()) == nil {
			return "value must be one of the defined enum values"
		}
		return ""
	}}, onlyKnown(r, "defined_only")
}

// ofDuration supports the rule "not negative" alone.
func ofDuration(r *validate.DurationRules) ([]check, error) {
	if r.GetGte().AsDuration() != 0 {
		return nil, fmt.Errorf("unsupported bound of a duration: %s", r.GetGte().AsDuration())
	}
	return []check{func(v protoreflect.Value) string {
		if d, ok := v.Message().Interface().(*durationpb.Duration); ok && d.AsDuration() < 0 {
			return "must be greater than or equal to 0s"
		}
		return ""
	}}, onlyKnown(r, "gte")
}
