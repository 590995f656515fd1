package tool

import (
	"context"
	"encoding/json"
)

// Peer is the client of a call, as far as what runs the call may pass something on to
// it: an upstream server has progress to tell, or a question. Its zero value is a
// client that listens to nothing. Nothing of it is a fact, and nothing of it is bound.
type Peer struct {
	// Session is what the client calls its session; the pipeline fills it in.
	Session string
	// Progress tells the client how far the call is. It must not block.
	Progress func(Progress)
	// LogLevel is from which level on the client wants the log of an upstream server,
	// "" for nothing of it, and Log passes a line on. It must not block.
	LogLevel string
	Log      func(LogLine)
	// Takes says which requests of upstream servers the client declared that it takes.
	Takes Takes
	// Ask passes such requests on, all at once, and returns the answers by the same
	// names; one that is missing was not given. nil says that the client takes none.
	Ask func(context.Context, map[string]Request) (map[string]json.RawMessage, error)
}

// Progress is how far a call is, in units of the tool's own; Total is 0 where it is
// not known.
type Progress struct {
	Done, Total float64
	Message     string
}

// LogLine is a line of the log of an upstream server. Data is any JSON.
type LogLine struct {
	Level, Logger string
	Data          json.RawMessage
}

// Takes are kinds of requests: elicitation by form and by URL, sampling, also with
// tools, and roots.
type Takes struct {
	Form, URL, Sampling, SamplingTools, Roots bool
}

// Request is one of an upstream server to the client of a call, in the words of MCP.
type Request struct {
	// Method is elicitation/create, sampling/createMessage or roots/list.
	Method string
	Params json.RawMessage
}
