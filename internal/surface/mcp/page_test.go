package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"palyra/internal/surface/mcp"
)

// TestPage: the page of an approval links to the console if there is one. It contains nothing
// of the request's path except a valid id.
func TestPage(t *testing.T) {
	t.Parallel()
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	console := "http://palyra-x.localhost:7145"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+mcp.ApprovalsPath+"{id}", mcp.Page(func() string { return console }))
	read := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if code, text := read(mcp.ApprovalsPath + id); code != http.StatusOK || !strings.Contains(text, console+mcp.ApprovalsPath+id) || !strings.Contains(text, "palyra approve "+id) {
		t.Errorf("%d: %s", code, text)
	}
	if code, text := read(mcp.ApprovalsPath + "x%0aevil"); code != http.StatusNotFound || strings.Contains(text, "evil") {
		t.Errorf("%d: %s", code, text)
	}
	console = ""
	if _, text := read(mcp.ApprovalsPath + id); strings.Contains(text, "console") || !strings.Contains(text, "palyra approve "+id) {
		t.Errorf("without a console: %s", text)
	}
}
