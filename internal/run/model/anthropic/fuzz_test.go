package anthropic

import (
	"strings"
	"testing"
	"testing/iotest"

	"palyra/internal/run/model"
	"palyra/internal/run/model/modeltest"
)

// readText reads a stream that arrives byte by byte.
func readText(text string) (model.Turn, error) {
	stream := model.NewEventStream(iotest.OneByteReader(strings.NewReader(text)))
	turn, err := read(stream, model.NewNames(model.Request{}), func(model.Event) {})
	if err != nil {
		return model.Turn{}, err
	}
	return model.Finish(model.Request{}, turn), nil
}

var recorded = modeltest.Recorded{API: "anthropic", Read: readText, Ends: "stop", End: func(text string) int { return strings.Index(text, "event: message_stop") }}

func TestPrefixIsNotATurn(t *testing.T) {
	t.Parallel()
	recorded.NoPrefixIsATurn(t)
}

func FuzzRead(f *testing.F) { recorded.Fuzz(f) }
