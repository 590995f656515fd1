package server_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"palyra/internal/mcp/server"
)

// TestPage: the page of an approval leads to the console where there is one, and writes
// nothing of its address but an id.
func TestPage(t *testing.T) {
	t.Parallel()
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	console := "http://palyra-x.localhost:7145"
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+server.ApprovalsPath+"{id}", server.Page(func() string { return console }))
	read := func(path string) (int, string) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code, w.Body.String()
	}
	if code, text := read(server.ApprovalsPath + id); code != http.StatusOK || !strings.Contains(text, console+server.ApprovalsPath+id) || !strings.Contains(text, "palyra approve "+id) {
		t.Errorf("%d: %s", code, text)
	}
	if code, text := read(server.ApprovalsPath + "x%0aevil"); code != http.StatusNotFound || strings.Contains(text, "evil") {
		t.Errorf("%d: %s", code, text)
	}
	console = ""
	if _, text := read(server.ApprovalsPath + id); strings.Contains(text, "console") || !strings.Contains(text, "palyra approve "+id) {
		t.Errorf("without a console: %s", text)
	}
}
