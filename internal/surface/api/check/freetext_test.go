package check_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/surface/api/check"
)

// secret has the form of a key.
var secret = "ghp_" + strings.Repeat("aB3", 12)

// texts returns the fields of all requests that contain strings or bytes.
func texts() map[string]protoreflect.FieldDescriptor {
	fields, seen := map[string]protoreflect.FieldDescriptor{}, map[protoreflect.FullName]bool{}
	var walk func(m protoreflect.MessageDescriptor)
	walk = func(m protoreflect.MessageDescriptor) {
		if seen[m.FullName()] {
			return
		}
		seen[m.FullName()] = true
		for i := range m.Fields().Len() {
			f := m.Fields().Get(i)
			switch f.Kind() {
			case protoreflect.MessageKind:
				walk(f.Message())
			case protoreflect.StringKind, protoreflect.BytesKind:
				fields[string(m.Name())+"."+string(f.Name())] = f
			}
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage("palyra.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				walk(methods.Get(j).Input())
			}
		}
		return true
	})
	return fields
}

// TestEveryTextHasARule: every string field of a request has a rule for keys in it. No request
// has maps or bytes that would need a rule.
func TestEveryTextHasARule(t *testing.T) {
	t.Parallel()
	fields, rules := texts(), map[string]check.Rule{}
	if len(fields) < 100 {
		t.Fatalf("only %d fields were found", len(fields))
	}
	for name, rule := range check.Table() {
		if _, twice := rules[name]; twice {
			t.Errorf("%s has two rows", name)
		}
		if fields[name] == nil {
			t.Errorf("%s has a row and is no field of a request", name)
		}
		rules[name] = rule
	}
	for name, field := range fields {
		rule, known := rules[name]
		if !known {
			t.Errorf("%s has no row in internal/surface/api/check/table.go: say what becomes of a key in it", name)
		}
		if field.IsMap() || field.Kind() == protoreflect.BytesKind && rule != check.Read {
			t.Errorf("%s is of a kind that is not treated", name)
		}
		if strings.HasSuffix(name, ".reason") && rule != check.Redacted {
			t.Errorf("%s is a sentence and not redacted", name)
		}
	}
}

// TestEveryTextIsTreated puts a key into each field, alone in its message and in a nested
// message. Afterwards, only fields whose rule is read still contain it.
func TestEveryTextIsTreated(t *testing.T) {
	t.Parallel()
	rules := map[string]check.Rule{}
	for name, rule := range check.Table() {
		rules[name] = rule
	}
	for name, field := range texts() {
		if field.Kind() != protoreflect.StringKind {
			continue
		}
		m := dynamicpb.NewMessage(field.ContainingMessage())
		value := protoreflect.ValueOfString("see x" + secret)
		if field.IsList() {
			list := m.Mutable(field).List()
			list.Append(protoreflect.ValueOfString("plain"))
			list.Append(value)
		} else {
			m.Set(field, value)
		}
		err := check.Treat(m)
		text := m.String()
		kept := strings.Contains(text, secret)
		switch rules[name] {
		case check.Refused:
			if reason.Of(err) != reason.InvalidInput || strings.Contains(err.Error(), secret) {
				t.Errorf("%s: %v", name, err)
			}
		case check.Redacted:
			if err != nil || kept || !strings.Contains(text, "see x"+tool.Redaction) {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		case check.Digested:
			if err != nil || kept || !strings.Contains(text, check.Digest("see x"+secret)) {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		case check.Read:
			if err != nil || !kept {
				t.Errorf("%s: %s, %v", name, text, err)
			}
		}
	}
}

// TestNested: keys in nested messages are found.
func TestNested(t *testing.T) {
	t.Parallel()
	stream := &palyrav1.RunStreamRequest{Message: &palyrav1.RunStreamRequest_Cancel{Cancel: &palyrav1.CancelRun{Reason: secret}}}
	if err := check.Treat(stream); err != nil || stream.GetCancel().GetReason() != tool.Redaction {
		t.Errorf("%v, %v", stream, err)
	}
	list := &palyrav1.ListEventsRequest{Filter: &palyrav1.EventFilter{Session: secret}}
	if err := check.Treat(list); reason.Of(err) != reason.InvalidInput {
		t.Errorf("%v, %v", list, err)
	}
}

// TestPlain: a message without a key stays unchanged, and two keys have two digests.
func TestPlain(t *testing.T) {
	t.Parallel()
	req := &palyrav1.CallToolRequest{Tool: "fs.read", Session: "main", Channel: "slack:general", IdempotencyKey: "task-550e8400-e29b-41d4-a716-446655440000", InputJson: []byte(`{"path":"a"}`)}
	was := proto.Clone(req)
	if err := check.Treat(req); err != nil || !proto.Equal(req, was) {
		t.Errorf("%v, %v", req, err)
	}
	if check.Digest(secret) == check.Digest(secret+"1") {
		t.Error("digests")
	}
}

func BenchmarkTreat(b *testing.B) {
	req := &palyrav1.CallToolRequest{Tool: "fs.read", Session: "main", Run: "one", IdempotencyKey: "550e8400-e29b-41d4-a716-446655440000", InputJson: []byte(`{"path":"a"}`)}
	for b.Loop() {
		must.Do(b, check.Treat(req))
	}
}
