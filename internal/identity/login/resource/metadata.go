package resource

import (
	"encoding/json"
	"net/http"
)

// MetadataPath is the path of the description of this gateway's token issuers (RFC 9728, section
// 3), and MCPPath the resource for which clients request tokens.
const (
	MetadataPath = "/.well-known/oauth-protected-resource"
	MCPPath      = "/mcp"
)

// MetadataRoutes are the patterns of Metadata: for the gateway, and for the first lookup of its MCP
// server's clients.
var MetadataRoutes = []string{"GET " + MetadataPath, "GET " + MetadataPath + MCPPath}

// Metadata serves the metadata of RFC 9728, section 3.2: the MCP server is a resource, and the
// configured issuers issue its tokens. Without issuers it responds 404. origin returns the
// address at which the client of a request reaches the gateway.
func (s *Service) Metadata(origin func(*http.Request) string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !s.Offered() {
			http.NotFound(w, r)
			return
		}
		text, err := json.Marshal(map[string]any{
			"resource": origin(r) + MCPPath, "resource_name": "Palyra", "authorization_servers": s.names(),
			"scopes_supported": s.scopes(), "bearer_methods_supported": []string{"header"},
		})
		if err != nil {
			http.Error(w, "the metadata cannot be written", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "max-age=300")
		_, _ = w.Write(text)
	})
}
