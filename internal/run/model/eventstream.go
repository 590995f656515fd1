package model

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
)

// ServerEvent is one event of a stream.
type ServerEvent struct {
	// Name is empty if the event has none.
	Name string
	// Data has the lines of the event's data, separated by line feeds.
	Data []byte
}

// EventStream reads text/event-stream (https://html.spec.whatwg.org, section 9.2) from the response
// of a provider. It ignores comments, and fields other than the name and the data.
type EventStream struct{ lines *bufio.Scanner }

// NewEventStream returns a reader of the events of a body. A line has at most MaxEvent bytes.
func NewEventStream(body io.Reader) EventStream {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, MaxEvent+len("\r\n"))
	return EventStream{lines}
}

// Next returns the next event that has data. At the end of the stream it returns io.EOF; an event
// that no empty line ends is incomplete and discarded.
func (s EventStream) Next() (ServerEvent, error) {
	var event ServerEvent
	hasData := false
	for s.lines.Scan() {
		line := s.lines.Bytes()
		if len(line) == 0 {
			if hasData && len(event.Data) > 0 {
				return event, nil
			}
			event, hasData = ServerEvent{}, false
			continue
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(name) {
		case "event":
			event.Name = string(value)
		case "data":
			if hasData {
				event.Data = append(event.Data, '\n')
			}
			event.Data, hasData = append(event.Data, value...), true
		}
	}
	if err := s.lines.Err(); err != nil {
		return ServerEvent{}, fmt.Errorf("reading the stream of events: %w", err)
	}
	return ServerEvent{}, io.EOF
}

// ErrorEvent is the JSON of an event by which a provider ends its answer with an error.
type ErrorEvent []byte

func (e ErrorEvent) Error() string { return "received error while streaming: " + string(e) }
