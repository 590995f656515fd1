package mcp

import "net/http"

// KeepAlive exports keepAlive for tests.
func KeepAlive(w http.ResponseWriter, answered func() bool) (http.ResponseWriter, func()) {
	return keepAlive(w, answered)
}
