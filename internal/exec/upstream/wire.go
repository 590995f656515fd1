package upstream

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"palyra/internal/core/canonical"
)

// Limits of a server's output: of one message, and of all messages of one call. A program that
// exceeds the limits between calls is ended as well.
const (
	mostMessage  = 4 << 20
	mostOfCall   = 64 << 20
	mostMessages = 5_000
	mostDepth    = 100
	// writeTime is the timeout for a program to read its input.
	writeTime = 30 * time.Second
)

// pipe is the connection to a program: one JSON-RPC message per line. It implements mcp.Transport
// and mcp.Connection. A protocol violation ends it.
type pipe struct {
	in  *os.File // the program's standard input
	out *io.PipeReader
	// fill receives the program's output.
	fill  *io.PipeWriter
	lines *bufio.Reader
	// writing serializes writes, so that messages stay whole.
	writing sync.Mutex
	// onNotification receives notifications that the library does not need.
	onNotification func(ctx context.Context, method string, params json.RawMessage) bool
	// stray receives log lines among the messages.
	stray func(line []byte)

	mu sync.Mutex
	// bytes and messages count since the last call began.
	bytes    int64
	messages int
	ended    error
}

func newPipe(in *os.File) *pipe {
	out, fill := io.Pipe()
	return &pipe{in: in, out: out, fill: fill, lines: bufio.NewReaderSize(out, 64<<10)}
}

// Connect implements mcp.Transport.
func (p *pipe) Connect(context.Context) (mcp.Connection, error) { return p, nil }

// SessionID implements mcp.Connection.
func (p *pipe) SessionID() string { return "" }

// begin resets the limits for the next call.
func (p *pipe) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes, p.messages = 0, 0
}

// Read returns the next message. An error ends the conversation.
func (p *pipe) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		line, err := p.line()
		if err != nil {
			return nil, p.end(err)
		}
		if len(line) == 0 {
			continue
		}
		message, err := decode(line)
		if err != nil && isStray(line) {
			if p.stray != nil {
				p.stray(line)
			}
			continue
		}
		if err != nil {
			return nil, p.end(fmt.Errorf("it sent the line %s, which is not a JSON-RPC message: %w", quoted(clean(string(line), mostStray)), err))
		}
		if r, is := message.(*jsonrpc.Request); is && !r.IsCall() && p.onNotification != nil && p.onNotification(ctx, r.Method, r.Params) {
			continue
		}
		return message, nil
	}
}

// line reads one line and returns it without its end.
func (p *pipe) line() ([]byte, error) {
	var line []byte
	for {
		part, err := p.lines.ReadSlice('\n')
		if fault := p.count(len(part), err == nil); fault != nil {
			return nil, fault
		}
		if len(line)+len(part) > mostMessage {
			return nil, fmt.Errorf("it sent a message of more than %d bytes", mostMessage)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return nil, err
		}
		line = line[:len(line)-1]
		if n := len(line); n > 0 && line[n-1] == '\r' {
			line = line[:n-1]
		}
		return line, nil
	}
}

// count returns an error when a limit is exceeded.
func (p *pipe) count(n int, whole bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(n)
	if whole {
		p.messages++
	}
	switch {
	case p.bytes > mostOfCall:
		return fmt.Errorf("it sent more than %d bytes for one call", mostOfCall)
	case p.messages > mostMessages:
		return fmt.Errorf("it sent more than %d messages for one call", mostMessages)
	}
	return nil
}

// decode decodes one message. Batches are not supported.
func decode(line []byte) (jsonrpc.Message, error) {
	if err := shallow(line); err != nil {
		return nil, err
	}
	if _, err := canonical.JSON(line); errors.Is(err, canonical.ErrDuplicateKey) {
		return nil, err // two parsers could read two different messages
	}
	if err := exactly(line); err != nil {
		return nil, err
	}
	return jsonrpc.DecodeMessage(wrapContent(line))
}

// shallow returns an error for text with too deep nesting, before it is decoded.
func shallow(text []byte) error {
	depth, quoted, escaped := 0, false, false
	for _, b := range text {
		switch {
		case escaped:
			escaped = false
		case quoted && b == '\\':
			escaped = true
		case b == '"':
			quoted = !quoted
		case quoted:
		case b == '{' || b == '[':
			if depth++; depth > mostDepth {
				return fmt.Errorf("it is nested deeper than %d", mostDepth)
			}
		case b == '}' || b == ']':
			depth--
		}
	}
	return nil
}

// Write sends a message. A program that does not read it in time ends the conversation.
func (p *pipe) Write(_ context.Context, m jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	_ = p.in.SetWriteDeadline(time.Now().Add(writeTime))
	if _, err := p.in.Write(append(text, '\n')); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = fmt.Errorf("it did not read its input for %s", writeTime)
		}
		return p.end(err)
	}
	return nil
}

// end records the first cause for the end of the conversation and returns it.
func (p *pipe) end(err error) error {
	p.mu.Lock()
	if p.ended == nil {
		p.ended = err
	}
	err = p.ended
	p.mu.Unlock()
	_ = p.out.CloseWithError(err)
	return err
}

// why returns the cause of the end, nil while the conversation continues.
func (p *pipe) why() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// Close ends the program's input.
func (p *pipe) Close() error {
	_ = p.end(io.EOF)
	return p.in.Close()
}
