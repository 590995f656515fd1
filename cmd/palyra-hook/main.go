// palyra-hook is the program that agents start as their hook. It takes the agent's JSON
// from standard input to palyrad, over the Unix socket in its state directory, and does
// what the answer says: nothing and exit 0, or a denial and exit 2.
//
// Whatever goes wrong is a denial: agents let a call run whose hook fails in any other
// way. It is small, since it starts before every call of an agent, and stands alone:
// nothing of the gateway is in it but the protocol.
package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// schema is the JSON Schema of what an agent of the kind generic sends and reads.
//
//go:embed generic.schema.json
var schema string

const usage = `usage: palyra-hook AGENT [-socket PATH] [-token-file PATH] [-limit SECONDS]
       palyra-hook schema

AGENT is claude-code, codex or generic. The socket is hooks.sock in palyrad's state
directory where that is the usual one, or PALYRA_HOOK_SOCKET. The token is read from the
file, or is PALYRA_HOOK_TOKEN; without one, the system says whose process this is. The
limit is how long the agent waits for this program, 60 unless it is said`

const (
	// defaultLimit is what agents give a hook that does not say; margin is how long
	// before that the answer is given.
	defaultLimit = 60 * time.Second
	margin       = 5 * time.Second
	// mostInput and mostAnswer bound what is read, in bytes.
	mostInput, mostAnswer = 8 << 20, 1 << 20
	// allowed and refused are the exit codes that agents know.
	allowed, refused = 0, 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stdout, os.Stderr))
}

// verdict is what the program says at its end.
type verdict struct {
	code           int
	stdout, stderr string
}

// run asks and answers. It returns whatever happens, once: a panic, a signal and the
// end of the agent's patience are denials.
func run(args []string, env func(string) string, stdin io.Reader, stdout, stderr io.Writer) (code int) {
	h := &hook{}
	if len(args) == 1 && args[0] == "schema" {
		return say(verdict{stdout: schema}, stdout, stderr)
	}
	if err := h.read(args, env); err != nil {
		return say(h.denied(err), stdout, stderr)
	}
	ended := make(chan verdict, 1)
	go func() {
		defer func() {
			if fault := recover(); fault != nil {
				ended <- h.denied(fmt.Errorf("palyra-hook has a fault: %v", fault))
			}
		}()
		ended <- h.ask(stdin)
	}()
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt, syscall.SIGHUP)
	late := time.NewTimer(h.patience())
	defer late.Stop()
	select {
	case v := <-ended:
		return say(v, stdout, stderr)
	case s := <-stop:
		return say(h.denied(fmt.Errorf("palyra-hook was stopped (%s) before the gateway answered", s)), stdout, stderr)
	case <-late.C:
		return say(h.denied(errors.New("the gateway did not answer in time")), stdout, stderr)
	}
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

// hook is one run.
type hook struct {
	agent, socket, token string
	limit                time.Duration
	// told is true once it is known that the agent asks nothing, but tells of
	// something: then there is nothing to deny.
	told atomic.Bool
}

// read reads the command line and the environment.
func (h *hook) read(args []string, env func(string) string) error {
	h.socket, h.token, h.limit = env("PALYRA_HOOK_SOCKET"), env("PALYRA_HOOK_TOKEN"), defaultLimit
	if h.socket == "" {
		h.socket = usualSocket(env)
	}
	if len(args) == 0 || len(args)%2 == 0 {
		return errors.New(usage)
	}
	h.agent = args[0]
	for i := 1; i < len(args); i += 2 {
		switch name, value := args[i], args[i+1]; strings.TrimPrefix(name, "-") {
		case "-socket", "socket":
			h.socket = value
		case "-token-file", "token-file":
			text, err := os.ReadFile(value)
			if err != nil {
				return fmt.Errorf("the token cannot be read: %w; run palyra hook install again", err)
			}
			h.token = strings.TrimSpace(string(text))
		case "-limit", "limit":
			seconds, err := strconv.ParseUint(value, 10, 16)
			if err != nil || seconds == 0 {
				return fmt.Errorf("%q is no number of seconds", value)
			}
			h.limit = time.Duration(seconds) * time.Second
		default:
			return fmt.Errorf("there is no option %s\n%s", name, usage)
		}
	}
	switch {
	case h.agent != "claude-code" && h.agent != "codex" && h.agent != "generic":
		return fmt.Errorf("there is no agent %q\n%s", h.agent, usage)
	case h.socket == "":
		return errors.New("it is not known where palyrad's socket is; say it by -socket")
	case strings.ContainsFunc(h.token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return errors.New("the token has characters that no token has; run palyra hook install again")
	}
	return nil
}

// usualSocket is where palyrad has its socket unless its configuration says otherwise.
func usualSocket(env func(string) string) string {
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
func (h *hook) patience() time.Duration {
	return max(h.limit-margin, h.limit/2) + time.Second
}

// denied is the verdict for whatever went wrong.
func (h *hook) denied(err error) verdict {
	why := "palyra: " + err.Error()
	if h.told.Load() {
		return verdict{code: allowed, stderr: why}
	}
	return verdict{refused, h.denial(why + ". Without the gateway's answer the call does not run."), why}
}

// denial is a denial in the agent's own form.
func (h *hook) denial(why string) string {
	var out any = map[string]any{"hookSpecificOutput": map[string]string{
		"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": why,
	}}
	if h.agent == "generic" {
		out = map[string]string{"decision": "deny", "reason": why}
	}
	text, err := json.Marshal(out)
	if err != nil {
		return ""
	}
	return string(text)
}

// ask takes the agent's message to the gateway.
func (h *hook) ask(stdin io.Reader) verdict {
	input, err := io.ReadAll(io.LimitReader(stdin, mostInput+1))
	switch {
	case err != nil:
		return h.denied(fmt.Errorf("the agent's message cannot be read: %w", err))
	case len(input) > mostInput:
		return h.denied(fmt.Errorf("the agent's message has more than %d bytes", mostInput))
	}
	var m struct {
		Claude  string `json:"hook_event_name"`
		Generic string `json:"event"`
	}
	if err := json.Unmarshal(input, &m); err != nil {
		return h.denied(fmt.Errorf("the agent's message is no JSON: %w", err))
	}
	h.told.Store(h.agent == "generic" && m.Generic != "" && m.Generic != "before" || h.agent != "generic" && m.Claude != "" && m.Claude != "PreToolUse")
	decision, body, err := h.send(input)
	if err != nil {
		return h.denied(err)
	}
	return h.obey(decision, body)
}

// obey turns the gateway's answer into a verdict.
func (h *hook) obey(decision string, body []byte) verdict {
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

// send sends the message as one request of HTTP/1.0, whose answer ends with the
// connection.
func (h *hook) send(input []byte) (decision string, body []byte, err error) {
	c, err := net.DialTimeout("unix", h.socket, margin)
	if err != nil {
		return "", nil, fmt.Errorf("palyrad cannot be reached: %w; start it with palyra up", err)
	}
	defer c.Close()
	shown := ""
	if h.token != "" {
		shown = "Authorization: Bearer " + h.token + "\r\n"
	}
	head := fmt.Sprintf("POST /hooks/v1/%s HTTP/1.0\r\nHost: localhost\r\n%sContent-Type: application/json\r\nPalyra-Hook-Limit: %d\r\nContent-Length: %d\r\n\r\n",
		h.agent, shown, int(h.limit/time.Second), len(input))
	if _, err := c.Write(append([]byte(head), input...)); err != nil {
		return "", nil, fmt.Errorf("palyrad did not take the message: %w", err)
	}
	return answer(bufio.NewReader(io.LimitReader(c, mostAnswer)))
}

// answer reads the gateway's answer.
func answer(r *bufio.Reader) (decision string, body []byte, err error) {
	status, err := r.ReadString('\n')
	if err != nil {
		return "", nil, fmt.Errorf("palyrad left without an answer: %w", err)
	}
	length := -1
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return "", nil, fmt.Errorf("palyrad's answer is cut: %w", err)
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); strings.ToLower(name) {
		case "palyra-decision":
			decision += value // two of them are none
		case "content-length":
			if length, err = strconv.Atoi(value); err != nil {
				return "", nil, errors.New("palyrad's answer has no length")
			}
		}
	}
	if body, err = io.ReadAll(r); err != nil {
		return "", nil, fmt.Errorf("palyrad's answer is cut: %w", err)
	}
	fields := strings.Fields(status)
	switch {
	case len(fields) < 2 || !strings.HasPrefix(fields[0], "HTTP/1."):
		return "", nil, errors.New("what listens on the socket is no palyrad")
	case fields[1] != "200":
		return "", nil, fmt.Errorf("palyrad refused the hook: %s", refusal(body, fields[1]))
	case length >= 0 && length != len(body):
		return "", nil, errors.New("palyrad's answer is cut")
	}
	return decision, body, nil
}

// refusal is what palyrad says of a message that it does not take.
func refusal(body []byte, status string) string {
	var out struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &out) != nil || out.Message == "" {
		return "status " + status
	}
	return out.Message
}
