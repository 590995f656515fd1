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

// hookFaults are what can become of the program that an agent starts as its hook. Each is
// a script in its place, which gets the question on its standard input.
var hookFaults = []struct {
	name, script string
	// ran are the agents that run the tool all the same: gaps, which docs/hooks.md names.
	ran []*agent
}{
	{name: "the hook is killed", script: "kill -9 $$"},
	{name: "the hook fails (exit 1)", script: "exit 1"},
	{name: "the hook fails and prints garbage", script: "echo garbage; exit 1"},
	{name: "the hook is gone", script: ""},
	// It is not palyra-hook any more: whoever can put it there runs as the person.
	{name: "another program is the hook: garbage, exit 0", script: "echo garbage; exit 0", ran: []*agent{claude, codex}},
	{name: "another program is the hook: allows all", script: "exit 0", ran: []*agent{claude, codex}},
	// The agent gives up on it after its time limit; that the tool ran is reported.
	{name: "the hook is stopped (SIGSTOP)", script: stops, ran: []*agent{codex}},
}

// TestHookFaults breaks the hook's program.
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
		// What an agent may run through is seen by whoever looks.
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
	// Stopped processes wait for nobody.
	endStopped(t, p.bin)
}

// tries has an agent that asks nothing itself run a line which policy allows.
func (p *person) tries(a *agent, fault string, want outcome) {
	p.t.Helper()
	line, made := p.mark("free")
	must.Do(p.t, removeAll(p.workspace, "free"))
	r := a.run(p, true, a.shell(line))
	table.want(p.t, fault, a, happened(made()), want, r.Out+r.Err+p.model.results())
}

// endStopped kills the scripts below a directory that stopped themselves.
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

// TestGatewayFaults has palyrad there, but not as it should be.
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

// TestSquattedPort: another program listens on the port of Claude Code's HTTP hook, which the user
// selected although no service manager holds it.
func TestSquattedPort(t *testing.T) {
	t.Parallel()
	p := newPerson(t)
	p.up()
	if r := p.palyra("hook", "install", "claude-code", "--transport", "http"); r.Code != 0 {
		// Refused: then there is no port that could be squatted.
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

// agentsAddress is where palyrad listens for agents.
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
