//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"palyra/internal/egress"
	"palyra/internal/exec/program/command"
	"palyra/internal/exec/sandbox"
)

// The arguments that make this program a server of bytes, and the client that measures their rate.
// The client is the same inside a sandbox and outside.
const (
	byteServer = "byte-server"
	byteClient = "byte-client"
)

// serveBytes sends the number of bytes that each connection requests, until stdin ends. It prints
// its address.
func serveBytes(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdin)
		_ = l.Close()
	}()
	fmt.Fprintln(stdout, l.Addr())
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_ = sendBytes(conn)
		}()
	}
}

func sendBytes(conn net.Conn) error {
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return err
	}
	left, err := strconv.Atoi(strings.TrimSpace(line))
	block := make([]byte, 256<<10)
	for left > 0 && err == nil {
		var n int
		n, err = conn.Write(block[:min(left, len(block))])
		left -= n
	}
	return err
}

// measureBytes is the client. Its arguments are an address, the number of sequential connections,
// and the number of bytes of each. It prints the median time of one, in microseconds.
func measureBytes(args []string, stdout io.Writer) error {
	if len(args) != 3 {
		return errors.New(byteClient + " needs an address, connections and bytes")
	}
	connections, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	bytes, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	buffer := make([]byte, 256<<10)
	took, err := p50(connections, func() error { return receive(args[0], bytes, buffer) })
	if err == nil {
		_, err = fmt.Fprintln(stdout, took)
	}
	return err
}

func receive(address string, bytes int, buffer []byte) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fmt.Fprintln(conn, bytes); err != nil {
		return err
	}
	for bytes > 0 {
		n, err := conn.Read(buffer)
		if bytes -= n; err != nil && bytes > 0 {
			return err
		}
	}
	return nil
}

// server is serveBytes in a separate process.
type server struct {
	cmd     *exec.Cmd
	stdin   io.Closer
	address string
}

func (b *bench) newServer() (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &server{cmd: exec.Command(self, byteServer)}
	s.cmd.Stderr = b.log
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), s.close())
	}
	s.address = strings.TrimSpace(line)
	return s, nil
}

func (s *server) close() error {
	_ = s.stdin.Close()
	return s.cmd.Wait()
}

// direct measures without a sandbox.
func (s *server) direct(ctx context.Context, connections, bytes int) (float64, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	out, err := exec.CommandContext(ctx, self, byteClient, s.address, strconv.Itoa(connections), strconv.Itoa(bytes)).Output()
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
}

// inside measures in a sandbox that can reach only the server.
func (c confined) inside(ctx context.Context, address string, connections, bytes int) (float64, error) {
	c.spec.Argv = []string{c.spec.Executable.Path, byteClient, address, strconv.Itoa(connections), strconv.Itoa(bytes)}
	report, err := c.runner.Run(ctx, c.spec)
	if err != nil {
		return 0, err
	}
	took, err := strconv.ParseFloat(strings.TrimSpace(string(report.Stdout.Head)), 64)
	if err != nil {
		return 0, fmt.Errorf("the client did not end well: %s%s", report.Stdout.Head, report.Stderr.Head)
	}
	return took, nil
}

// reaching returns a grant of one address.
func reaching(address string) (*egress.Reach, error) {
	rule, err := egress.ParseRule(address)
	return &egress.Reach{Rules: egress.Rules{Allow: []egress.Rule{rule}}}, err
}

// client copies this program into the workspace of a sandbox.
func (c *confined) client() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	name := filepath.Join(c.spec.WorkspaceRoot, "client")
	if err := os.WriteFile(name, text, 0o755); err != nil { //nolint:gosec // a program
		return err
	}
	program, err := command.ResolveExecutable(name, nil)
	c.spec.Executable = program.Executable
	return err
}

// egressProxy is goal 16: the throughput and latency that a program in a strict sandbox loses
// on the connection to a permitted host. It also measures the additional start time of such a
// sandbox.
func egressProxy(ctx context.Context, b *bench) (_ []*line, err error) {
	s, err := b.newServer()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	offline, err := b.tierC(ctx, sandbox.ReadOnly, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, offline.runner.Close()) }()
	strict := offline
	if strict.spec.Network, err = reaching(s.address); err != nil {
		return nil, err
	}
	client := strict
	if err := client.client(); err != nil {
		return nil, err
	}

	rate := &line{goal: "16", what: "throughput through a strict sandbox", floorName: "direct loopback", unit: "MB/s", limit: atLeast(0.7)}
	added := &line{goal: "16", what: "added latency per connection, p50", unit: "us", limit: atMost(1000)}
	start := &line{goal: "16", what: "added start-up, Tier C cold with an allowlist over offline, p50", unit: "us", limit: atMost(1000)}
	return []*line{rate, added, start}, b.each(ctx, func() error {
		if err := compare(ctx, s, client, 1, b.size.bytes, func(floor, product float64) {
			rate.add(float64(b.size.bytes)/floor, float64(b.size.bytes)/product) // bytes per microsecond are MB per second
		}); err != nil {
			return err
		}
		if err := compare(ctx, s, client, b.size.connections, 1, func(floor, product float64) { added.add(0, product-floor) }); err != nil {
			return err
		}
		p, err := inTurns(b.size.sandboxes, 0, func() error { return offline.once(ctx) }, func() error { return strict.once(ctx) })
		if err == nil {
			start.add(0, p[1]-p[0])
		}
		return err
	})
}

// compare measures outside and then inside.
func compare(ctx context.Context, s *server, c confined, connections, bytes int, add func(floor, product float64)) error {
	floor, err := s.direct(ctx, connections, bytes)
	if err != nil {
		return err
	}
	product, err := c.inside(ctx, s.address, connections, bytes)
	if err == nil {
		add(floor, product)
	}
	return err
}
