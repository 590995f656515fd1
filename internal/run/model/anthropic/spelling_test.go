package anthropic

import (
	"strings"
	"testing"
)

// TestEventsAreReadExactly: an event with a second spelling of a member that is read ends the
// turn with an error. Control: the same stream without it.
func TestEventsAreReadExactly(t *testing.T) {
	t.Parallel()
	stream := func(second string) string {
		var b strings.Builder
		for _, event := range []string{
			`{"type":"message_start","message":{"model":"m","usage":{}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"fs.read","input":{}` + second + `}}`,
			`{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{}}`,
			`{"type":"message_stop"}`,
		} {
			kind, _, _ := strings.Cut(strings.TrimPrefix(event, `{"type":"`), `"`)
			b.WriteString("event: " + kind + "\ndata: " + event + "\n\n")
		}
		return b.String()
	}
	if turn, err := readText(stream(`,"other":1,"OTHER":2`)); err != nil || len(turn.Calls) != 1 {
		t.Fatalf("the control: %+v, %v", turn, err)
	}
	for _, second := range []string{`,"NAME":"fs.write"`, `,"Input":{"x":1}`, `,"name":"fs.write"`} {
		if turn, err := readText(stream(second)); err == nil {
			t.Errorf("with %s: %+v", second, turn)
		}
	}
}

// TestEventsOfNewTypes: the members of an event of an unknown type may have any type.
func TestEventsOfNewTypes(t *testing.T) {
	t.Parallel()
	stream := func(kind string) string {
		return "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"model\":\"m\",\"usage\":{}}}\n\n" +
			"event: " + kind + "\ndata: {\"type\":\"" + kind + "\",\"delta\":\"x\",\"message\":\"hello\",\"usage\":[1]}\n\n" +
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{}}\n\n" +
			"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	}
	if turn, err := readText(stream("message_forecast")); err != nil || turn.Model != "m" {
		t.Errorf("%+v, %v", turn, err)
	}
	if turn, err := readText(stream("message_delta")); err == nil {
		t.Errorf("the control, an event of a known type: %+v", turn)
	}
}
