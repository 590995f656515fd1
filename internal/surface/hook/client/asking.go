// Package client is the agent's end of a hook: it takes the agent's JSON from standard
// input to palyrad, over the Unix socket in its state directory, and does what the answer
// says: nothing and exit 0, or a denial and exit 2.
//
// Whatever goes wrong is a denial: agents let a call run whose hook fails in any other
// way. It is small, since it starts before every call of an agent, and stands alone:
// nothing of the gateway is in it but the protocol.
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

// Schema is the JSON Schema of what an agent of the kind generic sends and reads.
//
//go:embed generic.schema.json
var Schema string

// newToken is how an agent gets a token.
const newToken = "name the file of a token: palyra hook install writes that of claude-code and codex, palyra tokens create NAME --for agent:NAME --scope hook.report --out DIR that of others"

// Generic is the agent whose messages have the gateway's own form.
const Generic = "generic"

const (
	// DefaultLimit is what agents give a hook that does not say; margin is how long
	// before that the answer is given.
	DefaultLimit = 60 * time.Second
	margin       = 5 * time.Second
	// mostInput and mostAnswer bound what is read, in bytes.
	mostInput, mostAnswer = 8 << 20, 1 << 20
	// allowed and refused are the exit codes that agents know.
	allowed, refused = 0, 2
)

// Hook is one question, or one report, of an agent.
type Hook struct {
	// Agent is claude-code, codex or generic.
	Agent string
	// Socket is palyrad's socket for hooks.
	Socket string
	// Token is an API token; with "" the system says whose process this is.
	Token string
	// Limit is how long the agent waits for this process.
	Limit time.Duration

	// told is true once the message is known to be a report: then there is nothing to deny.
	told atomic.Bool
}

// verdict is what the agent gets.
type verdict struct {
	code           int
	stdout, stderr string
}

// Run asks and answers, and returns the exit code. It returns whatever happens, once: a
// panic, a signal and the end of the agent's patience are denials.
func (h *Hook) Run(stdin io.Reader, stdout, stderr io.Writer) (code int) {
	if err := h.check(); err != nil {
		return h.Deny(err, stdout, stderr)
	}
	ended := make(chan verdict, 1)
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				ended <- h.denied(fmt.Errorf("the hook has a fault: %v", fault))
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

// Deny answers with a denial because of what went wrong before anybody could be asked,
// and returns its exit code.
func (h *Hook) Deny(err error, stdout, stderr io.Writer) (code int) {
	return say(h.denied(err), stdout, stderr)
}

// check refuses what nobody can be asked with.
func (h *Hook) check() error {
	switch {
	case h.Socket == "":
		return errors.New("it is not known where palyrad's socket is; set PALYRA_HOOK_SOCKET")
	case strings.ContainsFunc(h.Token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the token has characters that no token has; " + newToken)
	case h.Limit < time.Second:
		return fmt.Errorf("the agent's limit of %s is shorter than a second", h.Limit)
	}
	return nil
}

// say prints a verdict. What cannot be printed is a denial by its exit code alone.
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

// ReadToken reads a token from a file of its own.
func ReadToken(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("the token cannot be read: %w; %s", err, newToken)
	}
	return strings.TrimSpace(string(text)), nil
}

// UsualSocket is where palyrad has its socket unless its configuration says otherwise; "" where
// that cannot be told.
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

// patience is how long the answer may take. The gateway answers a moment earlier.
func (h *Hook) patience() time.Duration {
	return max(h.Limit-margin, h.Limit/2) + time.Second
}

// denied is the verdict for whatever went wrong.
func (h *Hook) denied(err error) verdict {
	why := "palyra: " + err.Error()
	if h.told.Load() {
		return verdict{code: allowed, stderr: why}
	}
	return verdict{refused, h.denial(why + ". Without the gateway's answer the call does not run."), why}
}

// denial is a denial in the agent's own form.
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

// ask takes the agent's message to the gateway.
func (h *Hook) ask(stdin io.Reader) verdict {
	input, err := io.ReadAll(io.LimitReader(stdin, mostInput+1))
	switch {
	case err != nil:
		return h.denied(fmt.Errorf("the agent's message cannot be read: %w", err))
	case len(input) > mostInput:
		return h.denied(fmt.Errorf("the agent's message has more than %d bytes", mostInput))
	}
	form := claudeForm
	if h.Agent == Generic {
		form = genericForm
	}
	event, err := member(input, form.event)
	if err != nil {
		return h.denied(fmt.Errorf("the agent's message cannot be read: %w", err))
	}
	h.told.Store(slices.Contains(form.reports, event))
	decision, body, err := h.send(input)
	if err != nil {
		return h.denied(err)
	}
	return h.obey(decision, body)
}

// form is how messages name their event. reports are the events after which nothing can be
// denied. Every other event is a question, also one that is not known: a misspelt question
// that counted as a report would let the tool run.
type form struct {
	event   string
	reports []string
}

var (
	genericForm = form{"event", []string{"after", "failed", "turn_end", "session_end"}}
	// claudeForm is the form of Codex, too.
	claudeForm = form{"hook_event_name", []string{"PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd"}}
)

// member returns a text at the top of an object, "" where it is missing. A second one and
// another spelling are errors, as at the gateway: encoding/json would take the event of
// {"event":"before","Event":"after"} for a report.
func member(input []byte, name string) (string, error) {
	if !json.Valid(input) {
		return "", errors.New("it is not valid JSON")
	}
	d := json.NewDecoder(bytes.NewReader(input))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return "", errors.New("it is not a JSON object")
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
			return "", fmt.Errorf("it has another %q, or another spelling of it", name)
		}
		if err := json.Unmarshal(value, &text); err != nil {
			return "", fmt.Errorf("its %q is not a string", name)
		}
		found = true
	}
	return text, nil
}

// obey turns the gateway's answer into a verdict.
func (h *Hook) obey(decision string, body []byte) verdict {
	switch {
	case len(body) > 0 && !json.Valid(body):
		return h.denied(errors.New("the gateway's answer is cut"))
	case h.told.Load() && decision == "none", !h.told.Load() && decision == "allow":
		return verdict{code: allowed, stdout: string(body)}
	case decision == "deny":
		return verdict{refused, string(body), reasonOf(body)}
	}
	return h.denied(fmt.Errorf("the gateway answered %q", decision))
}

// reasonOf is why a call is denied, for agents that read it from standard error.
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
