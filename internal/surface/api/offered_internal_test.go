package api

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestUnlistedHandlersAreNotReached: a handler that is not a method of a service is not
// reachable, even if it is registered next to them. Control: a method is reachable.
func TestUnlistedHandlersAreNotReached(t *testing.T) {
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
