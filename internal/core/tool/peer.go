package tool

import (
	"context"
	"encoding/json"
)

// Peer is the client of a call, for executors that pass data on to it: an upstream server reports
// progress or asks a question. Its zero value is a client that receives nothing. None of it is a
// fact, and none of it is bound.
type Peer struct {
	// Session is the client's name of its session; the pipeline sets it.
	Session string
	// Progress reports the progress of the call to the client. It MUST NOT block.
	Progress func(Progress)
	// LogLevel is from which level on the client wants the log of an upstream server,
	// "" for nothing of it, and Log passes a line on. It must not block.
	LogLevel string
	Log      func(LogLine)
	// Takes lists the requests of upstream servers that the client declared to support.
	Takes Takes
	// Ask passes such requests on, all at once, and returns the answers by the same names; a
	// missing one was not answered. nil means that the client accepts none.
	Ask func(context.Context, map[string]Request) (map[string]json.RawMessage, error)
}

// Progress is the progress of a call in the tool's own units; Total is 0 if unknown.
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
