package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestNothingBesideTheMethods: a handler that is no method of a service is not reached,
// whoever put it beside them. The control is a method.
func TestNothingBesideTheMethods(t *testing.T) {
	t.Parallel()
	handler := offered(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	for path, want := range map[string]int{
		"/debug/pprof/": http.StatusNotFound, "/": http.StatusNotFound, "/palyra.v1.StatusService": http.StatusTeapot, "/palyra.v1.NopeService/X": http.StatusNotFound,
		"/palyra.v1.StatusService/GetStatus": http.StatusTeapot, reflectionProcedure("v1"): http.StatusTeapot,
	} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, nil))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", path, w.Code, want)
		}
	}
}
