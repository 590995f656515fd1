// Package check validates requests before a handler receives them. It applies the field rules that
// the protos declare as protovalidate options (buf.validate). It supports the kinds of rules that
// palyra.v1 uses, and ReadRules refuses any other kind, so that no declared rule is ignored.
// Meaning, order and wording match protovalidate's own Go implementation, and a test compares the
// two. That implementation is not used because it would link CEL and the ANTLR runtime into the
// program.
//
// It also keeps secrets out of stored data. A table defines for each text field the treatment
// of a text that has the form of a well-known secret key.
//
// Names are refused and not redacted, because two redacted names would be equal. Idempotency
// keys are stored as digests without salt, because a retry must match after a restart. A text
// with the form of a key has too many possible values to be guessed. The message of a run is
// not changed, since the model reads it; journal and tape redact it.
package check

import (
	"errors"
	"fmt"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// Rules are the field rules of a package.
type Rules struct {
	messages map[protoreflect.FullName]*message
}

// message has the rules of one message type.
type message struct {
	// required are the oneofs of which one member must be set.
	required []protoreflect.OneofDescriptor
	fields   []field
}

// field has the rules of one field.
type field struct {
	descriptor protoreflect.FieldDescriptor
	name       string
	required   bool
	// presence is true if the field can be absent, holds if its values are messages.
	presence, holds bool
	// whole checks the value of the field, including a list as such; item checks the elements of a
	// list.
	whole, item []check
}

// check returns the fault of a value, or "".
type check func(protoreflect.Value) string

// Violations are the violated rules of one message.
type Violations []string

// Error lists each field and its violated rule.
func (v Violations) Error() string {
	if len(v) == 1 {
		return "validation error: " + v[0]
	}
	return "validation errors:\n - " + strings.Join(v, "\n - ")
}

// ReadRules reads the rules of every message of a package whose generated code is linked. An
// unsupported kind of rule is an error.
func ReadRules(pkg protoreflect.FullName) (*Rules, error) {
	r := &Rules{messages: map[protoreflect.FullName]*message{}}
	var err error
	protoregistry.GlobalFiles.RangeFilesByPackage(pkg, func(file protoreflect.FileDescriptor) bool {
		err = r.readAll(file.Messages())
		return err == nil
	})
	return r, err
}

func (r *Rules) readAll(list protoreflect.MessageDescriptors) error {
	for i := range list.Len() {
		m, err := readMessage(list.Get(i))
		if err != nil {
			return err
		}
		r.messages[list.Get(i).FullName()] = m
		if err := r.readAll(list.Get(i).Messages()); err != nil {
			return err
		}
	}
	return nil
}

func readMessage(d protoreflect.MessageDescriptor) (*message, error) {
	if proto.HasExtension(d.Options(), validate.E_Message) {
		return nil, fmt.Errorf("%s has unsupported rules: message", d.FullName())
	}
	m := &message{}
	for i := range d.Oneofs().Len() {
		oneof := d.Oneofs().Get(i)
		if rules, _ := proto.GetExtension(oneof.Options(), validate.E_Oneof).(*validate.OneofRules); rules.GetRequired() {
			m.required = append(m.required, oneof)
		}
	}
	for i := range d.Fields().Len() {
		f, err := readField(d.Fields().Get(i))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d.Fields().Get(i).FullName(), err)
		}
		if f.required || f.holds || len(f.whole)+len(f.item) > 0 {
			m.fields = append(m.fields, f)
		}
	}
	return m, nil
}

func readField(d protoreflect.FieldDescriptor) (field, error) {
	rules, _ := proto.GetExtension(d.Options(), validate.E_Field).(*validate.FieldRules)
	f := field{descriptor: d, name: string(d.Name()), required: rules.GetRequired(), presence: d.HasPresence(), holds: d.Message() != nil}
	if rules.HasType() && d.IsList() && rules.GetRepeated() == nil {
		return f, errors.New("a list has the rules of one value")
	}
	var err error
	f.whole, f.item, err = checksOf(d, rules)
	return f, err
}

// Check returns nil or Violations. Messages of other packages have no rules.
func (r *Rules) Check(m proto.Message) error {
	var found Violations
	r.check(m.ProtoReflect(), "", &found)
	if len(found) == 0 {
		return nil
	}
	return found
}

// check checks a message; path is the prefix of its field names.
func (r *Rules) check(m protoreflect.Message, path string, found *Violations) {
	rules, ok := r.messages[m.Descriptor().FullName()]
	if !ok {
		return
	}
	for _, oneof := range rules.required {
		if m.WhichOneof(oneof) == nil {
			found.add(path+string(oneof.Name()), "exactly one field is required in oneof")
		}
	}
	for i := range rules.fields {
		r.checkField(m, &rules.fields[i], path, found)
	}
}

func (r *Rules) checkField(m protoreflect.Message, f *field, path string, found *Violations) {
	if !m.Has(f.descriptor) {
		if f.required {
			found.add(path+f.name, "value is required")
			return
		}
		// An absent optional field violates no rule.
		if f.presence {
			return
		}
	}
	value := m.Get(f.descriptor)
	if say := wrong(value, f.whole); say != nil {
		found.add(path+f.name, say...)
	}
	switch {
	case f.descriptor.IsMap():
	case f.descriptor.IsList():
		for i := range value.List().Len() {
			item, at := value.List().Get(i), fmt.Sprintf("%s%s[%d]", path, f.name, i)
			found.add(at, wrong(item, f.item)...)
			r.descend(f, item, at, found)
		}
	case f.holds:
		r.descend(f, value, path+f.name, found)
	}
}

func (r *Rules) descend(f *field, value protoreflect.Value, path string, found *Violations) {
	if f.holds {
		r.check(value.Message(), path+".", found)
	}
}

// wrong returns all violations of a value.
func wrong(value protoreflect.Value, checks []check) (all []string) {
	for _, check := range checks {
		if say := check(value); say != "" {
			all = append(all, say)
		}
	}
	return all
}

func (v *Violations) add(path string, all ...string) {
	for _, say := range all {
		*v = append(*v, path+": "+say)
	}
}
