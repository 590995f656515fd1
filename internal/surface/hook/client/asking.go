// Package client is the agent's end of a hook. It passes the agent's JSON from standard input
// to palyrad, over the Unix socket in palyrad's state directory. Its result is either no output
// and exit 0, or a denial and exit 2.
//
// Every failure is a denial: agents run a call whose hook fails in any other way. The program
// starts before every call of an agent, so it is small and shares nothing with the gateway except
// the protocol.
package client

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// Schema is the JSON Schema of the messages of an agent of the kind generic.
//
//go:embed generic.schema.json
var Schema string

// newToken describes how an agent gets a token.
const newToken = "specify the file of a token: palyra hook install writes it for claude-code and codex, palyra tokens create NAME --for agent:NAME --scope hook.report --out DIR for others"

// Generic is the agent that uses the gateway's own message format.
const Generic = "generic"

const (
	// DefaultLimit is the hook timeout of agents that do not specify one. margin is the reserve
	// between the gateway's answer and that timeout.
	DefaultLimit = 60 * time.Second
	margin       = 5 * time.Second
	// mostInput and mostAnswer bound the message and the response, in bytes.
	mostInput, mostAnswer = 8 << 20, 1 << 20
	// allowed and refused are the exit codes that agents recognize.
	allowed, refused = 0, 2
)

// Hook is one request or report of an agent.
type Hook struct {
	// Agent is claude-code, codex or generic.
	Agent string
	// Socket is palyrad's socket for hooks.
	Socket string
	// Token is an API token; if "", the operating system identifies the process.
	Token string
	// Limit is how long the agent waits for this process.
	Limit time.Duration

	// isReport is true once the message is known to be a report, which cannot be denied.
	isReport atomic.Bool
}

// verdict is the output to the agent.
type verdict struct {
	code           int
	stdout, stderr string
}

// Run sends the message and returns the exit code. It always returns: a panic, a signal and a
// timeout are denials.
func (h *Hook) Run(stdin io.Reader, stdout, stderr io.Writer) (code int) {
	if err := h.check(); err != nil {
		return h.Deny(err, stdout, stderr)
	}
	ended := make(chan verdict, 1)
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				ended <- h.denied(fmt.Errorf("internal error in the hook: %v", fault))
			}
		}()
		ended <- h.ask(stdin)
	}()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	defer signal.Stop(stop)
	late := time.NewTimer(h.patience())
	defer late.Stop()
	select {
	case v := <-ended:
		return say(v, stdout, stderr)
	case s := <-stop:
		return say(h.denied(fmt.Errorf("the hook was stopped (%s) before the gateway answered", s)), stdout, stderr)
	case <-late.C:
		return say(h.denied(errors.New("the gateway did not answer in time")), stdout, stderr)
	}
}

// Deny prints a denial for an error that occurred before the message was sent. It returns the
// exit code of the denial.
func (h *Hook) Deny(err error, stdout, stderr io.Writer) (code int) {
	return say(h.denied(err), stdout, stderr)
}

// check refuses a hook that cannot send its message.
func (h *Hook) check() error {
	switch {
	case h.Socket == "":
		return errors.New("the path of palyrad's socket is not known; set PALYRA_HOOK_SOCKET")
	case strings.ContainsFunc(h.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the token contains invalid characters; " + newToken)
	case h.Limit < time.Second:
		return fmt.Errorf("the agent's limit of %s is shorter than a second", h.Limit)
	}
	return nil
}

// say prints a verdict. If printing fails, the exit code alone denies.
func say(v verdict, stdout, stderr io.Writer) int {
	_, lost := io.WriteString(stdout, v.stdout)
	if v.stderr != "" {
		fmt.Fprintln(stderr, v.stderr)
	}
	if lost != nil {
		return refused
	}
	return v.code
}

// ReadToken reads a token from its file.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w; %s", err, newToken)
	}
	return strings.TrimSpace(string(text)), nil
}

// UsualSocket returns the default path of palyrad's socket; "" if it cannot be determined.
func UsualSocket(env func(string) string) string {
	state, home := env("XDG_STATE_HOME"), env("HOME")
	switch {
	case filepath.IsAbs(state):
		return filepath.Join(state, "palyra", "hooks.sock")
	case home != "":
		return filepath.Join(home, ".local", "state", "palyra", "hooks.sock")
	case os.Geteuid() == 0:
		return "/var/lib/palyra/hooks.sock"
	}
	return ""
}

// patience is the timeout for the answer. The gateway answers slightly earlier.
func (h *Hook) patience() time.Duration {
	return max(h.Limit-margin, h.Limit/2) + time.Second
}

// denied returns the verdict for an error.
func (h *Hook) denied(err error) verdict {
	why := "palyra: " + err.Error()
	if h.isReport.Load() {
		return verdict{code: allowed, stderr: why}
	}
	return verdict{refused, h.denial(why + ". Without the gateway's answer the call does not run."), why}
}

// denial returns a denial in the agent's own format.
func (h *Hook) denial(why string) string {
	var out any = map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why,
	}}
	if h.Agent == Generic {
		out = map[string]string{"decision": "deny", "reason": why}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return string(text)
}

// ask sends the agent's message to the gateway.
func (h *Hook) ask(stdin io.Reader) verdict {
	input, err := io.ReadAll(io.LimitReader(stdin, mostInput+1))
	switch {
	case err != nil:
		return h.denied(fmt.Errorf("reading the agent's message: %w", err))
	case len(input) > mostInput:
		return h.denied(fmt.Errorf("the agent's message is larger than %d bytes", mostInput))
	}
	form := claudeForm
	if h.Agent == Generic {
		form = genericForm
	}
	event, err := member(input, form.event)
	if err != nil {
		return h.denied(fmt.Errorf("reading the agent's message: %w", err))
	}
	h.isReport.Store(slices.Contains(form.reports, event))
	decision, body, err := h.send(input)
	if err != nil {
		return h.denied(err)
	}
	return h.obey(decision, body)
}

// form describes the events of messages. event is the member with the name of the event.
// reports are the events that cannot be denied. Every other event is a request, including
// unknown ones: a misspelt request that counted as a report would let the tool run.
type form struct {
	event   string
	reports []string
}

var (
	genericForm = form{"event", []string{"after", "failed", "turn_end", "session_end"}}
	// claudeForm is also the form of Codex.
	claudeForm = form{"hook_event_name", []string{"PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"}}
)

// member returns a string member of an object, "" if it is missing. A duplicate, also in another
// spelling, is an error, as at the gateway: encoding/json would read
// {"event":"before","Event":"after"} as a report.
func member(input []byte, name string) (string, error) {
	if !json.Valid(input) {
		return "", errors.New("the message is not valid JSON")
	}
	d := json.NewDecoder(bytes.NewReader(input))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return "", errors.New("the message is not a JSON object")
	}
	text, found := "", false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return "", err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return "", err
		}
		if spelled, ok := key.(string); !ok || !strings.EqualFold(spelled, name) {
			continue
		}
		if found || key != name {
			return "", fmt.Errorf("the message has a duplicate of %q, or another spelling of it", name)
		}
		if err := json.Unmarshal(value, &text); err != nil {
			return "", fmt.Errorf("%q is not a string", name)
		}
		found = true
	}
	return text, nil
}

// obey converts the gateway's answer to a verdict.
func (h *Hook) obey(decision string, body []byte) verdict {
	switch {
	case len(body) > 0 && !json.Valid(body):
		return h.denied(errors.New("the gateway's answer is incomplete"))
	case h.isReport.Load() && decision == "none", !h.isReport.Load() && decision == "allow":
		return verdict{code: allowed, stdout: string(body)}
	case decision == "deny":
		return verdict{refused, string(body), reasonOf(body)}
	}
	return h.denied(fmt.Errorf("the gateway answered %q", decision))
}

// reasonOf returns the reason of a denial, for agents that read it from standard error.
func reasonOf(body []byte) string {
	var out struct {
		Reason string `json:"reason"`
		Hook   struct {
			Reason string `json:"permissionDecisionReason"`
		} `json:"hookSpecificOutput"`
	}
	if json.Unmarshal(body, &out) != nil {
		return ""
	}
	return out.Reason + out.Hook.Reason
}
