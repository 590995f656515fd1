package anthropic

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	sdk "github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"palyra/internal/model"
	"palyra/internal/must"
)

// readText reads a stream that comes byte by byte.
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

func recorded(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../modeltest/testdata/anthropic/*.sse")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recorded streams, %v", len(files), err)
	}
	out := make(map[string]string)
	for _, file := range files {
		text := must.Get(os.ReadFile(file))(t)
		out[filepath.Base(file)] = string(text)
	}
	return out
}

// TestNoPrefixIsATurn cuts every recorded stream in many places: only the whole
// one gives a turn.
func TestNoPrefixIsATurn(t *testing.T) {
	const step = 11 // every byte takes half a minute with the race detector
	for name, text := range recorded(t) {
		end := strings.Index(text, "event: message_stop")
		if end < 0 {
			end = len(text)
		}
		for n := 0; n < end; n += step {
			if turn, err := readText(text[:n]); err == nil {
				t.Fatalf("%s: %d of %d bytes gave %+v", name, n, len(text), turn)
			}
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range recorded(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		turn, err := readText(text)
		if err != nil {
			return
		}
		if !strings.Contains(text, "stop") {
			t.Fatalf("a stream that does not end gave %+v", turn)
		}
		ids := make(map[string]bool)
		for _, call := range turn.Calls {
			if call.Tool == "" || ids[call.ID] || call.ID == "" || len(call.Input) == 0 {
				t.Fatalf("a call is %+v", call)
			}
			ids[call.ID] = true
		}
		if last := len(turn.Calls) - 1; turn.Stop == model.MaxTokens && last >= 0 && !json.Valid(turn.Calls[last].Input) {
			t.Fatalf("a call that was cut off came through: %s", turn.Calls[last].Input)
		}
		if turn.Stop != model.MaxTokens && (turn.Stop == model.ToolUse) != (len(turn.Calls) > 0) {
			t.Fatalf("%s with %d calls", turn.Stop, len(turn.Calls))
		}
	})
}
