package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/workspace/overlay"
)

// process is the program of an instance in its sandbox. The methods of a nil process describe a
// program that runs and writes nothing.
type process struct {
	pipe     *pipe
	underway sandbox.Underway
	stderr   tail
	stop     context.CancelCauseFunc
	// ended is closed when the process has exited and final and failed are set.
	ended  chan struct{}
	final  sandbox.Report
	failed error

	mu sync.Mutex
	// strayLine is the first log line among the messages.
	strayLine string
}

// gone reports whether the process has exited or its conversation has ended.
func (p *process) gone() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return true
	default:
		return p.pipe.why() != nil
	}
}

// wroteSince reports whether a process has written to its copy of the workspace. It returns true
// if that is unknown.
func (p *process) wroteSince() bool {
	if p == nil || p.underway.Wrote == nil {
		return false
	}
	wrote, err := p.underway.Wrote()
	return wrote || err != nil
}

// cause describes the end of a process, "" while it runs.
func (p *process) cause() string {
	if p == nil {
		return ""
	}
	var parts []string
	if why := p.pipe.why(); why != nil && !errors.Is(why, io.EOF) && !errors.Is(why, io.ErrClosedPipe) {
		parts = append(parts, clean(why.Error(), 300))
	}
	select {
	case <-p.ended:
		switch f := p.final; {
		case f.Quota != "":
			parts = append(parts, "it used up its limit of "+f.Quota)
		case f.ExitCode != nil:
			parts = append(parts, fmt.Sprintf("it ended with exit code %d", *f.ExitCode))
		case len(parts) == 0 && p.failed != nil:
			parts = append(parts, clean(p.failed.Error(), 300))
		}
	default:
		if len(parts) == 0 {
			return ""
		}
	}
	if line := p.wroteStray(); line != "" {
		parts = append(parts, line)
	}
	if lastOutput := p.stderr.last(); lastOutput != "" {
		parts = append(parts, "it wrote: "+lastOutput)
	}
	return strings.Join(parts, "; ")
}

// The exit codes that shells, env and the sandbox use for a missing or non-executable program.
const (
	notExecutable = 126
	notFound      = 127
)

// remedy returns the next step if the process itself must be fixed, "" if a retry may succeed.
func (p *process) remedy(server string) string {
	if p == nil {
		return ""
	}
	select {
	case <-p.ended:
		if code := p.final.ExitCode; code != nil && (*code == notFound || *code == notExecutable) {
			return "The program, or a program that it starts, does not exist in the sandbox or is not executable: install it, then run `palyra mcp refresh " + server + "`."
		}
	default:
	}
	if p.wroteStray() != "" {
		return fmt.Sprintf(logRemedy, server)
	}
	return ""
}

// takeLayer waits for the exit and returns the copy of the workspace, nil if it was taken before.
func (p *process) takeLayer() *overlay.Layer {
	<-p.ended
	p.mu.Lock()
	defer p.mu.Unlock()
	layer := p.final.Layer
	p.final.Layer = nil
	return layer
}

// end ends the program and waits for it. The program gets graceTime to exit.
func (p *process) end(cause error) {
	grace := graceTime
	if why := p.pipe.why(); why != nil && !errors.Is(why, io.EOF) {
		grace = 0 // it violated the protocol
	}
	_ = p.pipe.Close()
	patience := time.NewTimer(grace)
	defer patience.Stop()
	select {
	case <-p.ended:
	case <-patience.C:
		p.stop(cause)
		<-p.ended
	}
}

// tail keeps the end of a program's standard error.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const mostTail = 2048

func (t *tail) add(chunk []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, chunk...)
	if n := len(t.text); n > mostTail {
		t.text = append([]byte{}, t.text[n-mostTail:]...)
	}
}

// last returns the last lines joined into one, for a message.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Fields(strings.ToValidUTF8(string(t.text), "\ufffd"))
	return clean(strings.Join(lines, " "), 500)
}

// mostStray is the displayed length of a stray line.
const mostStray = 200

// logRemedy is the next step for a program that logs to its standard output.
const logRemedy = "Configure the server to write its log to standard error, and only messages to standard output. A variable, an argument or its stdio mode often selects that. Then run `palyra mcp refresh %s`."

// isStray reports whether a line that is not a message is a log line, in plain text or in JSON.
// The conversation continues after such a line. It ends after a line that may be a broken
// message, or may contain a message after other text: the call that expects this answer would
// wait forever.
func isStray(line []byte) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(line, &members) != nil {
		return !bytes.Contains(bytes.ToLower(line), []byte("jsonrpc"))
	}
	has := func(name string) bool {
		for key := range members {
			if strings.EqualFold(key, name) {
				return true
			}
		}
		return false
	}
	return !has("jsonrpc") && !(has("id") && (has("result") || has("error")))
}

// stray records the first log line of an instance among its messages.
func (st *starter) stray(in *instance, line []byte) {
	text := clean(string(bytes.ToValidUTF8(line, []byte("\ufffd"))), mostStray)
	if in.process.addStray(text) {
		st.catalog.noted(in.server.Name, func(k *kept) { k.stray = text })
		st.use.Log.Warn("an upstream server writes lines that are not messages to its standard output: they are skipped", slog.String("upstream", in.server.Name), slog.String("line", text))
	}
}

// addStray records a stray line. It reports whether it is the first.
func (p *process) addStray(text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.strayLine == ""
	if first {
		p.strayLine = text
	}
	return first
}

// wroteStray describes the first stray line, "" if none was written.
func (p *process) wroteStray() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.strayLine == "" {
		return ""
	}
	return namedStray(p.strayLine)
}

// namedStray describes a stray line for a message.
func namedStray(line string) string {
	return "it wrote the line " + quoted(line) + " to its standard output, which is not a JSON-RPC message"
}

func quoted(line string) string { return `"` + strings.ReplaceAll(line, "\t", " ") + `"` }
