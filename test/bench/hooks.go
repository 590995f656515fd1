//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/oklog/ulid/v2"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/statedir"
)

// hooks is goal 26: the time that an agent waits before each of its tools. With HTTP this is
// one request. With the command it also includes the start of a program. The floor is then the
// same request over the socket, plus 1.5 times the start of a program without work.
func hooks(ctx context.Context, b *bench) (_ []*line, err error) {
	a, err := b.newHooked(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, a.gateway.stop()) }()
	hello, err := b.hello()
	if err != nil {
		return nil, err
	}
	asked := &line{goal: "26", what: "http hook, p50", unit: "us", limit: atMost(3000)}
	started := &line{goal: "26", what: "command hook, p50", floorName: "1.5 x static hello in Go + one call over the socket", unit: "us", limit: atMost(1)}
	if _, err := p50(b.size.calls, func() error { return a.asks(ctx, a.port, a.url) }); err != nil { // connections, caches
		return nil, err
	}
	return []*line{asked, started}, b.each(ctx, func() error {
		port, err := p50Then(b.size.calls, func(id string) error { return a.ask(ctx, a.port, a.url, "PreToolUse", id) }, a.reports(ctx))
		if err != nil {
			return err
		}
		asked.add(0, port)
		took, err := a.inTurns(ctx, b, hello)
		started.add(1.5*took[0]+took[1], took[2])
		return err
	})
}

// inTurns measures the start of hello, a question over the socket, and a question by palyra-hook.
func (a *hooked) inTurns(ctx context.Context, b *bench, hello string) (medians [3]float64, err error) {
	var all [3][]float64
	for range b.size.sandboxes {
		for i, do := range []func(id string) error{
			func(string) error { return run(exec.CommandContext(ctx, hello)) },
			func(id string) error { return a.ask(ctx, a.socket, socketURL, "PreToolUse", id) },
			a.program(ctx, b),
		} {
			id := ulid.Make().String()
			one, err := sample(1, func() error { return do(id) })
			if err == nil && i > 0 {
				err = a.reports(ctx)(id)
			}
			if err != nil {
				return medians, err
			}
			all[i] = append(all[i], one...)
		}
	}
	for i := range all {
		medians[i] = median(all[i])
	}
	return medians, nil
}

// p50Then measures do with a new id each time, and then runs then without measuring it.
func p50Then(n int, do, then func(id string) error) (float64, error) {
	var values []float64
	for range n {
		id := ulid.Make().String()
		one, err := sample(1, func() error { return do(id) })
		if err == nil {
			err = then(id)
		}
		if err != nil {
			return 0, err
		}
		values = append(values, one...)
	}
	return median(values), nil
}

// socketURL is the endpoint of Claude Code's hooks over the socket; the host name has no effect.
const socketURL = "http://localhost/hooks/v1/claude-code"

// hooked is a daemon and an agent that uses its hooks.
type hooked struct {
	gateway *gateway
	token   string
	// port and socket are the clients of the two transports, and url is the endpoint for port.
	port, socket *http.Client
	url          string
}

var agentsAddress = regexp.MustCompile(` agents=(\S+)`)

// newHooked starts a daemon that listens for agents, and creates an agent with a token.
func (b *bench) newHooked(ctx context.Context) (_ *hooked, err error) {
	g, err := b.newGateway("", "")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(g.config())
	if err != nil {
		return nil, err
	}
	text = bytes.Replace(text, []byte("[listen]\n"), []byte("[listen]\nagents = \"127.0.0.1:0\"\n"), 1)
	if err := os.WriteFile(g.config(), text, 0o600); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(g.workspace(), "main.go"), []byte("package main\n"), 0o600); err != nil {
		return nil, err
	}
	if _, err := g.start(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, g.stop())
		}
	}()
	c, err := g.operator()
	if err != nil {
		return nil, err
	}
	if _, err := g.add("claude", "--owner", "local", "--role", "agent"); err != nil {
		return nil, err
	}
	if _, err := palyrav1connect.NewAccessServiceClient(c.http, c.base).ConsentToAgent(ctx, &palyrav1.ConsentToAgentRequest{Agent: "claude"}); err != nil {
		return nil, err
	}
	made, err := palyrav1connect.NewTokenServiceClient(c.http, c.base).CreateToken(ctx, &palyrav1.CreateTokenRequest{Name: "hook", Principal: "agent:claude", Scopes: []string{"hook.report"}})
	if err != nil {
		return nil, err
	}
	m := agentsAddress.FindStringSubmatch(g.log.String())
	if m == nil {
		return nil, fmt.Errorf("palyrad does not say where agents reach it:\n%s", g.log)
	}
	socket := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", statedir.Hooks(g.state()))
	}, DisableKeepAlives: true} // like palyra-hook
	return &hooked{gateway: g, token: made.GetText(), port: &http.Client{}, socket: &http.Client{Transport: socket}, url: "http://" + m[1] + "/hooks/v1/claude-code"}, nil
}

// message returns Claude Code's message about a call that reads a file.
func (a *hooked) message(event, id string) string {
	more := ""
	if event == "PostToolUse" {
		more = `,"tool_response":{"type":"text"}`
	}
	return fmt.Sprintf(`{"session_id":"s1","cwd":%q,"hook_event_name":%q,"tool_name":"Read","tool_use_id":%q,"tool_input":{"file_path":%q}%s}`,
		a.gateway.workspace(), event, id, filepath.Join(a.gateway.workspace(), "main.go"), more)
}

// ask sends a message through one of the transports. A question must be allowed.
func (a *hooked) ask(ctx context.Context, by *http.Client, url, event, id string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(a.message(event, id)))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	r.Header.Set("Content-Type", "application/json")
	answer, err := by.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && (answer.StatusCode != http.StatusOK || event == "PreToolUse" && !bytes.Contains(text, []byte(`"allow"`))) {
		return fmt.Errorf("%s: %s: %s", event, answer.Status, text)
	}
	return err
}

// asks makes a call: a question and then its report.
func (a *hooked) asks(ctx context.Context, by *http.Client, url string) error {
	id := ulid.Make().String()
	return errors.Join(a.ask(ctx, by, url, "PreToolUse", id), a.reports(ctx)(id))
}

// reports reports that calls ran.
func (a *hooked) reports(ctx context.Context) func(id string) error {
	return func(id string) error { return a.ask(ctx, a.port, a.url, "PostToolUse", id) }
}

// program returns a function that asks through palyra-hook.
func (a *hooked) program(ctx context.Context, b *bench) func(id string) error {
	path := filepath.Join(filepath.Dir(b.palyrad), "palyra-hook")
	return func(id string) error {
		cmd := exec.CommandContext(ctx, path, "claude-code", "-socket", statedir.Hooks(a.gateway.state()))
		cmd.Env = append(a.gateway.environment(), "PALYRA_HOOK_TOKEN="+a.token)
		cmd.Stdin = strings.NewReader(a.message("PreToolUse", id))
		return run(cmd)
	}
}
