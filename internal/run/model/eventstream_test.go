package model_test

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"palyra/internal/run/model"
)

func TestEventStream(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                 nil,
		"event: a\ndata: 1\n\ndata: 2\n\n": {"a 1", " 2"},
		"event: a\r\ndata: 1\r\n\r\n":      {"a 1"},
		"data:1\ndata\ndata: 3\n\n":        {" 1\n\n3"},
		"data:  1\n\n":                     {"  1"},
		": comment\nid: 7\nretry: 1\ndata: 1\n\n":  {" 1"},
		"event: without data\n\ndata: 1\n\n":       {" 1"},
		"event: empty\ndata:\n\ndata: 1\n\n":       {" 1"},
		"data: 1\n\ndata: not ended by an empty\n": {" 1"},
		"\n\n\ndata: 1\n\n\n\n":                    {" 1"},
		"DATA: 1\ndata : 2\nevent: a\ndata: 3\n\n": {"a 3"},
	} {
		stream := model.NewEventStream(iotest.OneByteReader(strings.NewReader(text)))
		var got []string
		event, err := stream.Next()
		for ; err == nil; event, err = stream.Next() {
			got = append(got, event.Name+" "+string(event.Data))
		}
		if !errors.Is(err, io.EOF) || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestEventStreamErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, body := range map[string]io.Reader{
		"a broken body": io.MultiReader(strings.NewReader("data: 1\n"), iotest.ErrReader(broken)),
		"a long line":   strings.NewReader("data: " + strings.Repeat("x", model.MaxEvent) + "\n\n"),
	} {
		event, err := model.NewEventStream(body).Next()
		if err == nil || errors.Is(err, io.EOF) || event.Data != nil {
			t.Errorf("%s: %d bytes, %v", name, len(event.Data), err)
		}
		if name == "a broken body" && !errors.Is(err, broken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Control: a line of the largest size is read.
	largest := strings.Repeat("x", model.MaxEvent-len("data: "))
	if event, err := model.NewEventStream(strings.NewReader("data: " + largest + "\n\n")).Next(); err != nil || len(event.Data) != len(largest) {
		t.Errorf("%d bytes, %v", len(event.Data), err)
	}
}
