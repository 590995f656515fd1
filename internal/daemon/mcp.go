package daemon

import (
	"context"
	"net/http"
	"time"

	"palyra/internal/hook"
	"palyra/internal/login/resource"
	mcpserver "palyra/internal/mcp/server"
	"palyra/internal/rejoin"
	"palyra/internal/rpc"
	"palyra/internal/version"
)

// openCalls makes what lets calls outlive their clients, for every surface whose
// clients have less time than people take.
func openCalls(_ context.Context, g *gateway, _ Options) error {
	g.holding = make(chan struct{})
	g.calls = rejoin.New(g.pipeline, g.holding)
	return nil
}

// openMCP makes the face of the gateway to MCP clients.
func openMCP(_ context.Context, g *gateway, _ Options) error {
	limits := make(map[string]time.Duration)
	for _, c := range g.cfg.MCPClients {
		limits[c.Name] = c.CallLimit
	}
	g.mcp = mcpserver.New(mcpserver.Config{
		Tools: g.router, Pipeline: g.pipeline, Calls: g.calls, Catalog: catalog(g.engine, g.router), Caller: rpc.CallerOf,
		EndSession: func(ctx context.Context, session string) error { return g.desk.EndSession(ctx, session) },
		Refuse: func(w http.ResponseWriter, r *http.Request, err error) {
			rpc.WriteError(w, r, g.log, rpc.MCPRoute, err)
		},
		Address: func() string { return reachable(g.listeners.at.API) },
		Limits:  limits, Version: version.Get().Version, Log: g.log,
	})
	return nil
}

// surfaces are the handlers of the guarded routes.
func surfaces(g *gateway) map[string]http.Handler {
	handlers := g.authzen.Handlers()
	for _, pattern := range resource.MetadataRoutes {
		handlers[pattern] = g.issuers.Metadata(rpc.Origin)
	}
	handlers[hook.Pattern] = hook.Route{Service: g.hooks, Caller: rpc.CallerOf, Near: rpc.Near, Fail: errorsOf(g, hook.Pattern)}
	handlers[rpc.MCPRoute] = g.mcp
	handlers[rpc.ApprovalPageRoute] = http.HandlerFunc(mcpserver.Page)
	return handlers
}

// swapped tells those who look at policies that others are in force.
func (g *gateway) swapped() {
	g.isolation.Invalidate()
	if g.mcp != nil {
		g.mcp.Changed()
	}
}
