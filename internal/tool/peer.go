package tool

import "context"

// Peer is the client of a call, as far as what runs the call may pass something on to
// it: an upstream server has progress to tell, or a question. Its zero value is a
// client that listens to nothing. Nothing of it is a fact, and nothing of it is bound.
type Peer struct {
	// Session is what the client calls its session; the pipeline fills it in.
	Session string
	// Meta is what the client sent beside the call (the _meta of MCP).
	Meta map[string]any
	// Progress tells the client how far the call is. It must not block.
	Progress func(Progress)
	// Elicit passes a question on to the client, whose person answers it or does not.
	// nil says that the client takes none.
	Elicit func(context.Context, Elicitation) (Elicited, error)
}

// Progress is how far a call is, in units of the tool's own; Total is 0 where it is
// not known.
type Progress struct {
	Done, Total float64
	Message     string
}

// Elicitation is a question of an upstream server.
type Elicitation struct {
	// Server is who asks.
	Server string
	// Mode is form or url.
	Mode    string
	Message string
	// URL is to be opened by the person, in mode url.
	URL string
	ID  string
	// Schema is a JSON Schema of the answer, in mode form.
	Schema map[string]any
}

// Elicited is the answer: accept, decline or cancel.
type Elicited struct {
	Action  string
	Content map[string]any
}
