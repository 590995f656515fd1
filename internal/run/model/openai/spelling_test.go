package openai

import (
	"encoding/json"
	"testing"
)

// TestChunksAreReadExactly: a chunk with a second spelling of a member that is read is invalid.
// Controls: the first chunk is valid, and encoding/json accepts the other spelling.
func TestChunksAreReadExactly(t *testing.T) {
	t.Parallel()
	const call = `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"fs.read","arguments":"{}"`
	good := "data: " + call + `}}]}}]}` + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
	if turn, err := readText(good); err != nil || len(turn.Calls) != 1 {
		t.Fatalf("the control: %+v, %v", turn, err)
	}
	for _, second := range []string{`,"NAME":"fs.write"}}]}}]}`, `,"Arguments":"{\"x\":1}"}}]}}]}`, `},"ID":"d"}]}}]}`, `}}],"Tool_Calls":[]}}]}`} {
		text := call + second
		if turn, err := readText("data: " + text + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"); err == nil {
			t.Errorf("%s is read as %+v", text, turn)
		}
		var loose chunk
		if err := json.Unmarshal([]byte(text), &loose); err != nil {
			t.Errorf("the control: encoding/json refuses %s: %v", text, err)
		}
	}
}
