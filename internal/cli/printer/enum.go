package printer

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"palyra/internal/cli/command"
	"palyra/internal/core/text"
)

// enumName returns a value's name without the prefix of its type: APPROVAL_STATE_PENDING is
// "pending"; unspecified is "".
func enumName(e protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	if n == 0 {
		return ""
	}
	v := e.Values().ByNumber(n)
	if v == nil {
		return "unknown"
	}
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), enumPrefix(e)))
}

// enumPrefix returns the part of the zero value's name before UNSPECIFIED.
func enumPrefix(e protoreflect.EnumDescriptor) string {
	return strings.TrimSuffix(string(e.Values().ByNumber(0).Name()), "UNSPECIFIED")
}

// Enum is enumName for a value of a generated enum.
func Enum(e protoreflect.Enum) string { return enumName(e.Descriptor(), e.Number()) }

// EnumNames lists the short names of an enum, without unspecified.
func EnumNames(e protoreflect.EnumDescriptor) []string {
	var names []string
	for i := range e.Values().Len() {
		if n := e.Values().Get(i).Number(); n != 0 {
			names = append(names, enumName(e, n))
		}
	}
	return names
}

// ParseEnum finds a value by its short name.
func ParseEnum[E protoreflect.Enum](flag, name string) (E, error) {
	var zero E
	e := zero.Descriptor()
	for i := range e.Values().Len() {
		if n := e.Values().Get(i).Number(); n != 0 && enumName(e, n) == name {
			if value, ok := zero.Type().New(n).(E); ok {
				return value, nil
			}
		}
	}
	return zero, command.Usage("--%s %q: want one of %s", flag, name, strings.Join(EnumNames(e), ", ")).
		WithRemedy("%s", text.NearestHelp(name, EnumNames(e)))
}

// ParseEnums is ParseEnum of each name.
func ParseEnums[E protoreflect.Enum](flag string, names []string) (list []E, err error) {
	for _, name := range names {
		one, err := ParseEnum[E](flag, name)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
	return list, nil
}
