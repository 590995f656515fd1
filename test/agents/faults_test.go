//go:build unix

package agents

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"palyra/internal/core/must"
)

// stops is a hook that stops before a tool runs, and reports afterwards.
const stops = `input=$(cat)
case $input in *'"PreToolUse"'*) kill -STOP $$ ;; esac
printf %s "$input" | "$0.real" "$@"`

// hookFaults are the failures of the hook program that an agent starts. Each is a script that
// replaces the hook and receives the hook's request on standard input.
var hookFaults = []struct {
	name, script string
	// ran lists the agents that run the tool anyway. docs/hooks.md documents these gaps.
	ran []*agent
}{
	{name: "the hook is killed", script: "kill -9 $$"},
	{name: "the hook fails (exit 1)", script: "exit 1"},
	{name: "the hook fails and prints garbage", script: "echo garbage; exit 1"},
	{name: "the hook is gone", script: ""},
	// The program is no longer palyra-hook. Replacing it requires the person's own access rights.
	{name: "another program is the hook: garbage, exit 0", script: "echo garbage; exit 0", ran: []*agent{claude, codex}},
	{name: "another program is the hook: allows all", script: "exit 0", ran: []*agent{claude, codex}},
	// The agent stops waiting after its time limit. The journal records that the tool ran.
	{name: "the hook is stopped (SIGSTOP)", script: stops, ran: []*agent{codex}},
}

// TestHookFaults replaces the hook's program and checks whether a tool runs.
func TestHookFaults(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	program := filepath.Join(p.bin, "palyra-hook")
	must.Do(t, copyProgram(program, program+".real"))
	for _, fault := range hookFaults {
		must.Do(t, removeAll(p.bin, "palyra-hook"))
		if fault.script != "" {
			must.Do(t, os.WriteFile(program, []byte("#!/bin/sh\n"+fault.script+"\n"), 0o755))
		}
		for _, a := range all {
			want := blocked
			for _, through := range fault.ran {
				if through == a {
					want = ran
				}
			}
			p.tries(a, fault.name, want)
		}
		// An operator can detect a call that the agent ran without a decision.
		switch {
		case fault.script == stops:
			if r := p.palyra("journal", "list", "-o", "json", "--limit", "0"); !strings.Contains(r.Out, "PAL-H101") {
				t.Errorf("%s: the journal does not say that a call ran which was not decided: %s", fault.name, r.Err)
			}
		case len(fault.ran) > 0:
			if r := p.palyra("hook", "status"); r.Code == 0 {
				t.Errorf("%s: palyra hook status says that all is well:\n%s", fault.name, r.Out)
			}
		}
	}
	// Stopped processes would never exit by themselves.
	endStopped(t, p.bin)
}

// tries has an agent without permission prompts run a line that policy allows, and checks the
// outcome.
func (p *person) tries(a *agent, fault string, want outcome) {
	p.t.Helper()
	line, made := p.mark("free")
	must.Do(p.t, removeAll(p.workspace, "free"))
	r := a.run(p, true, a.shell(line))
	table.want(p.t, fault, a, happened(made()), want, r.Out+r.Err+p.model.results())
}

// endStopped kills the hook scripts below a directory that stopped themselves.
func endStopped(t *testing.T, dir string) {
	t.Helper()
	list := must.Get(os.ReadDir("/proc"))(t)
	for _, e := range list {
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err != nil || !strings.Contains(string(line), dir+"/palyra-hook") {
			continue
		}
		pid := 0
		for _, digit := range e.Name() {
			pid = pid*10 + int(digit-'0')
		}
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// TestGatewayFaults runs agents while palyrad is up but does not work normally.
func TestGatewayFaults(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	pid := p.pid()
	must.Do(t, syscall.Kill(pid, syscall.SIGSTOP))
	for _, a := range all {
		p.tries(a, "palyrad does not answer (SIGSTOP)", blocked)
	}
	must.Do(t, syscall.Kill(pid, syscall.SIGCONT))
	for _, a := range all {
		p.tries(a, "palyrad answers again", ran)
	}
	p.stop(pid)
	socket := filepath.Join(p.home, ".local/state/palyra/hooks.sock")
	for _, squatter := range []struct {
		name   string
		answer http.HandlerFunc
		want   outcome
	}{
		{"hooks.sock squatted: garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("garbage")) }, blocked},
		{"hooks.sock squatted: error 500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, blocked},
		{"hooks.sock squatted: 200 and {}", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("{}")) }, blocked},
	} {
		_ = os.Remove(socket)
		l := must.Get(net.Listen("unix", socket))(t)
		s := &http.Server{Handler: squatter.answer}
		served := make(chan struct{})
		go func() { _ = s.Serve(l); close(served) }()
		for _, a := range all {
			p.tries(a, squatter.name, squatter.want)
		}
		_ = s.Close()
		<-served
	}
}

// TestSquattedPort: another program listens on the port of Claude Code's HTTP hook. The user
// selected that transport although no service manager holds the port.
func TestSquattedPort(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	if r := p.palyra("hook", "install", "claude-code", "--transport", "http"); r.Code != 0 {
		// The installation was refused, so no other program can use the port.
		table.want(t, "http hook without a held port", claude, blocked, blocked, r.Err)
		t.Logf("the http hook is not installed: %s", r.Err)
		return
	}
	p.tries(claude, "http hook, policy allows", ran)
	address := p.agentsAddress()
	p.stop(p.pid())
	p.tries(claude, "http hook, palyrad does not run", blocked)
	for _, squatter := range []struct {
		name   string
		answer http.HandlerFunc
		want   outcome
	}{
		{"http port squatted: garbage", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("garbage")) }, blocked},
		{"http port squatted: error 500", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }, blocked},
		{"http port squatted: allows all", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{}"))
		}, ran},
	} {
		l := must.Get(net.Listen("tcp", address))(t)
		s := &http.Server{Handler: squatter.answer}
		served := make(chan struct{})
		go func() { _ = s.Serve(l); close(served) }()
		p.tries(claude, squatter.name, squatter.want)
		_ = s.Close()
		<-served
	}
}

// agentsAddress returns the address on which palyrad listens for agents.
func (p *person) agentsAddress() string {
	p.t.Helper()
	text := string(must.Get(os.ReadFile(filepath.Join(p.home, ".config/palyra/palyra.toml")))(p.t))
	_, rest, _ := strings.Cut(text, `agents = "`)
	address, _, ok := strings.Cut(rest, `"`)
	if !ok {
		p.t.Fatalf("palyra.toml names no address for agents:\n%s", text)
	}
	return address
}
