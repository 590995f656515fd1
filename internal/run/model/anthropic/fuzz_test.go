package anthropic

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"palyra/internal/run/model"
	"palyra/internal/run/model/modeltest"
)

// readText reads a stream that arrives byte by byte.
func readText(text string) (model.Turn, error) {
	req, err := http.NewRequest(http.MethodPost, "https://model.test/", http.NoBody)
	if err != nil {
		return model.Turn{}, err
	}
	body := io.NopCloser(iotest.OneByteReader(strings.NewReader(text)))
	stream := ssestream.NewStream[sdk.MessageStreamEventUnion](ssestream.NewDecoder(&http.Response{Request: req, Body: body, Header: http.Header{}}), nil)
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
