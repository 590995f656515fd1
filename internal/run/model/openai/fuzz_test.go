package openai

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/openai/openai-go/v3/packages/ssestream"

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
	stream := ssestream.NewStream[chunk](ssestream.NewDecoder(&http.Response{Request: req, Body: body, Header: http.Header{}}), nil)
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
