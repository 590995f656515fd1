//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
)

// mcpCall is goal 25: the time that the gateway adds to a call of an MCP client, for its own echo
// and for a tool of an upstream server. The floor is the same call of a plain server of the
// official SDK, two durable writes, and half a millisecond. Another line is the time until the last
// byte of the list of 200 tools of that server. It excludes the official client's second parse of
// each schema, which takes longer.
func mcpCall(ctx context.Context, b *bench) (_ []*line, err error) {
	g, c, err := b.running(unasked, "")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.stop()) }()
	file, err := b.newGrowing()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.close()) }()
	plain, stop, err := plainMCP(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := c.addUpstream(ctx, "plain", plain); err != nil {
		return nil, err
	}
	direct, err := connectMCP(ctx, plain, http.DefaultClient)
	if err != nil {
		return nil, err
	}
	defer func() { _ = direct.Close() }()
	governed, err := connectMCP(ctx, c.base+"/mcp", c.http)
	if err != nil {
		return nil, err
	}
	defer func() { _ = governed.Close() }()

	const floor = "direct call + 2 durable appends + 0.5 ms"
	took := &line{goal: "25", what: "tools/call by MCP, p50", floorName: floor, unit: "us", limit: atMost(1)}
	proxied := &line{goal: "25", what: "tools/call of an upstream server, p50", floorName: floor, unit: "us", limit: atMost(1)}
	listed := &line{goal: "25", what: fmt.Sprintf("tools/list with %d tools of an upstream server, p50", upstreamTools), unit: "us", limit: atMost(5000)}
	own := func() error { return callMCP(ctx, governed, "echo") }
	through := func() error { return callMCP(ctx, governed, "plain_echo") }
	list := func() error { return listMCP(ctx, c, governed.ID()) }
	for _, warm := range []func() error{own, through, list} { // connections, pools, caches
		if _, err := p50(b.size.calls, warm); err != nil {
			return nil, err
		}
	}
	return []*line{took, proxied, listed}, b.each(ctx, func() error {
		medians, err := inTurns(b.size.calls, 0, func() error { return callMCP(ctx, direct, "echo") }, file.append, own, through, list)
		if err != nil {
			return err
		}
		least := medians[0] + 2*medians[1] + 500
		took.add(least, medians[2])
		proxied.add(least, medians[3])
		listed.add(0, medians[4])
		return nil
	})
}

// addUpstream adds an HTTP server to the gateway, and marks it as trusted.
func (c *client) addUpstream(ctx context.Context, name, url string) error {
	_, err := palyrav1connect.NewMcpServiceClient(c.http, c.base).AddUpstream(ctx, &palyrav1.AddUpstreamRequest{
		Server: &palyrav1.UpstreamServer{Name: name, Url: url, Trusted: true},
	})
	return err
}

func connectMCP(ctx context.Context, url string, h *http.Client) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: h}, &mcp.ClientSessionOptions{ProtocolVersion: mcpRevision})
}

func callMCP(ctx context.Context, s *mcp.ClientSession, name string) error {
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: map[string]any{"text": "hello"}})
	if err != nil {
		return err
	}
	if r.IsError {
		text, _ := json.Marshal(r.Content)
		return fmt.Errorf("%s failed: %s", name, text)
	}
	return nil
}

// listMCP lists the gateway's tools in a session, and reads the response as bytes.
func listMCP(ctx context.Context, c *client, session string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}`))
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"Accept": "application/json, text/event-stream", "Content-Type": "application/json", "Mcp-Session-Id": session, "Mcp-Protocol-Version": mcpRevision,
	} {
		r.Header.Set(name, value)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if n := bytes.Count(text, []byte(`"inputSchema"`)); err == nil && n < upstreamTools {
		return fmt.Errorf("%d tools are listed: %s %.200s", n, answer.Status, text)
	}
	return err
}

// mcpRevision is the revision that the clients use, and upstreamTools the number of tools of the
// upstream server in addition to echo.
const mcpRevision, upstreamTools = "2025-11-25", 200

// plainMCP serves echo, and tools that are only listed.
func plainMCP(ctx context.Context) (url string, stop func() error, err error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
	})
	for i := range upstreamTools {
		server.AddTool(&mcp.Tool{
			Name: fmt.Sprintf("tool_%d", i), Title: "A tool", Description: "It does something with many words, as they do.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","description":"one"},"b":{"type":"integer","description":"two"}},"required":["a"]}`),
		}, func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			return nil, errors.New("it is only listed")
		})
	}
	var cfg net.ListenConfig
	l, err := cfg.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	served := make(chan error, 1)
	h := &http.Server{Handler: mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil), ReadHeaderTimeout: patience}
	go func() { served <- h.Serve(l) }()
	return "http://" + l.Addr().String(), func() error {
		err := h.Close()
		if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
			return errors.Join(err, serr)
		}
		return err
	}, nil
}
