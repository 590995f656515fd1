package modeltest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/core/must"
	"palyra/internal/run/model"
)

// Recorded are the recorded streams of one API, read by its adapter.
type Recorded struct {
	// API is the folder of the streams.
	API string
	// Read reads a stream to its end.
	Read func(text string) (model.Turn, error)
	// End returns the offset at which a stream ends the turn, negative if it does not end the
	// turn.
	End func(text string) int
	// Ends is a text that occurs in every complete stream.
	Ends string
}

func (r Recorded) streams(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../modeltest/testdata/" + r.API + "/*.sse")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d recorded streams, %v", len(files), err)
	}
	out := make(map[string]string)
	for _, file := range files {
		out[filepath.Base(file)] = string(must.Get(os.ReadFile(file))(t))
	}
	return out
}

// NoPrefixIsATurn truncates every recorded stream at many places: only the whole stream yields a
// turn.
func (r Recorded) NoPrefixIsATurn(t *testing.T) {
	const step = 11 // testing every byte takes half a minute with the race detector
	for name, text := range r.streams(t) {
		end := r.End(text)
		if end < 0 {
			end = len(text)
		}
		for n := 0; n < end; n += step {
			if turn, err := r.Read(text[:n]); err == nil {
				t.Fatalf("%s: %d of %d bytes gave %+v", name, n, len(text), turn)
			}
		}
	}
}

// Fuzz reads arbitrary streams: any resulting turn must be valid.
func (r Recorded) Fuzz(f *testing.F) {
	for _, text := range r.streams(f) {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		turn, err := r.Read(text)
		if err != nil {
			return
		}
		if !strings.Contains(text, r.Ends) {
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
