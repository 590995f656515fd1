package openai

import (
	"regexp"
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

// finished matches the end of a turn in a stream.
var finished = regexp.MustCompile(`"finish_reason": "[a-z_]+"`)

var recorded = modeltest.Recorded{API: "openai", Read: readText, Ends: "finish", End: func(text string) int {
	at := finished.FindStringIndex(text)
	if at == nil {
		return -1
	}
	return at[0]
}}

func TestPrefixIsNotATurn(t *testing.T) {
	t.Parallel()
	recorded.NoPrefixIsATurn(t)
}

func FuzzRead(f *testing.F) { recorded.Fuzz(f) }
