package tool

import (
	"context"
	"encoding/json"
)

// Peer is the client of a call, for executors that forward messages to it: an upstream server
// reports progress or asks a question. The zero value is a client that receives nothing. Peer
// is not part of the facts or of the binding.
type Peer struct {
	// Session is the client's name of its session; the pipeline sets it.
	Session string
	// Progress reports the progress of the call to the client. It MUST NOT block.
	Progress func(Progress)
	// LogLevel is the lowest level of log lines of an upstream server that the client requested,
	// "" for no log. Log forwards a line; it MUST NOT block.
	LogLevel string
	Log      func(LogLine)
	// Takes lists the requests of upstream servers that the client declared support for.
	Takes Takes
	// Ask forwards such requests, all at once, and returns the answers by the same names. A
	// missing answer means that the request was not answered. nil means that the client accepts no
	// requests.
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

// Takes are kinds of requests: elicitation by form and by URL, sampling, sampling with tools,
// and roots.
type Takes struct {
	Form, URL, Sampling, SamplingTools, Roots bool
}

// Request is a request of an upstream server to the client of a call, as defined by MCP.
type Request struct {
	// Method is elicitation/create, sampling/createMessage or roots/list.
	Method string
	Params json.RawMessage
}
