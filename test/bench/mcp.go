//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpCall is goal 25: what the gateway adds to a call of an MCP client. The floor is the
// same call of a plain server of the official SDK that nothing governs, two durable
// writes, and half a millisecond.
func mcpCall(ctx context.Context, b *bench) (_ []*line, err error) {
	g, c, err := b.running("", "")
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

	took := &line{goal: "25", what: "tools/call by MCP, p50", floorName: "direct call + 2 durable appends + 0.5 ms", unit: "us", limit: atMost(1)}
	listed := &line{goal: "25", what: "tools/list by MCP, p50", unit: "us"}
	call := func() error { return echoByMCP(ctx, governed) }
	if _, err := p50(b.size.calls, call); err != nil { // connections, pools, caches
		return nil, err
	}
	return []*line{took, listed}, b.each(ctx, func() error {
		plain, err := p50(b.size.calls, func() error { return echoByMCP(ctx, direct) })
		if err != nil {
			return err
		}
		durable, err := p50(b.size.calls, file.append)
		if err != nil {
			return err
		}
		whole, err := p50(b.size.calls, call)
		if err != nil {
			return err
		}
		took.add(plain+2*durable+500, whole)
		list, err := p50(b.size.calls, func() error { _, err := governed.ListTools(ctx, nil); return err })
		listed.add(0, list)
		return err
	})
}

func connectMCP(ctx context.Context, url string, h *http.Client) (*mcp.ClientSession, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil)
	return client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, HTTPClient: h}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
}

func echoByMCP(ctx context.Context, s *mcp.ClientSession) error {
	r, err := s.CallTool(ctx, &mcp.CallToolParams{Name: "echo", Arguments: map[string]any{"text": "hello"}})
	if err != nil {
		return err
	}
	if r.IsError {
		text, _ := json.Marshal(r.Content)
		return fmt.Errorf("echo failed: %s", text)
	}
	return nil
}

// plainMCP serves echo and nothing else.
func plainMCP(ctx context.Context) (url string, stop func() error, err error) {
	server := mcp.NewServer(&mcp.Implementation{Name: "plain", Version: "1"}, nil)
	server.AddTool(&mcp.Tool{Name: "echo", InputSchema: json.RawMessage(`{"type":"object"}`)}, func(_ context.Context, r *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: string(r.Params.Arguments)}}}, nil
	})
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
