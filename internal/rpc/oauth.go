package rpc

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"palyra/internal/access"
)

// AccessTokens reads access tokens of other issuers (package login/resource).
type AccessTokens interface {
	// Offered reports whether any are taken.
	Offered() bool
	// Authenticate maps a token to the caller that it stands for.
	Authenticate(ctx context.Context, token string) (access.Caller, error)
	// Issuers and Scopes are what clients are told: where tokens come from, and what
	// they can be for.
	Issuers() []string
	Scopes() []access.Permission
}

// resourceMetadata is where what tokens are for is described (RFC 9728, section 3), and
// mcpPath the resource that clients ask tokens for.
const (
	resourceMetadata = "/.well-known/oauth-protected-resource"
	mcpPath          = "/mcp"
)

// ResourceMetadataRoutes are the patterns of ResourceMetadata: where the root of the
// gateway is described, and where clients of its MCP server look first.
var ResourceMetadataRoutes = []string{"GET " + resourceMetadata, "GET " + resourceMetadata + mcpPath}

// Origin is where the client of a guarded route reaches the gateway, as the beginning of
// URLs. The Host of the request was checked to be a name of the gateway.
func Origin(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// challenge says what a request without a credential that counts has to show (RFC 6750,
// section 3), and where it is described who gives it (RFC 9728, section 5.1).
func challenge(r *http.Request) string {
	parts := []string{`Bearer realm="palyra"`}
	if who, _ := r.Context().Value(callerKey{}).(peer); who.offered {
		parts = append(parts, `resource_metadata="`+Origin(r)+resourceMetadata+mcpPath+`"`)
	}
	if r.Header.Get("Authorization") != "" {
		parts = append(parts, `error="invalid_token"`)
	}
	return strings.Join(parts, ", ")
}

// ResourceMetadata serves the metadata of RFC 9728, section 3.2: that the MCP server is
// a resource whose tokens the configured issuers give. There is none without issuers.
func ResourceMetadata(issuers AccessTokens) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if issuers == nil || !issuers.Offered() {
			http.NotFound(w, r)
			return
		}
		text, err := json.Marshal(map[string]any{
			"resource": Origin(r) + mcpPath, "resource_name": "Palyra", "authorization_servers": issuers.Issuers(),
			"scopes_supported": issuers.Scopes(), "bearer_methods_supported": []string{"header"},
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
