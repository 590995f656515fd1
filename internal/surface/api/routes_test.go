package api_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"palyra/internal/identity/login/resource"
	"palyra/internal/ops/telemetry"
	"palyra/internal/surface/api"
	"palyra/internal/surface/api/presenceproof"
	"palyra/internal/surface/authzen"
	"palyra/internal/surface/console"
	"palyra/internal/surface/hook"
)

// TestEveryRouteHasARow: the table lists exactly the routes that are served by plain HTTP.
func TestEveryRouteHasARow(t *testing.T) {
	t.Parallel()
	served := slices.Concat(slices.Collect(maps.Keys((&telemetry.Metrics{}).Handlers())), slices.Collect(maps.Keys((&authzen.Service{}).Handlers())), slices.Collect(maps.Keys((&console.Console{}).Handlers())), resource.MetadataRoutes, []string{api.MCPRoute, api.ApprovalPageRoute, hook.Pattern, presenceproof.Route})
	slices.Sort(served)
	rows := slices.Sorted(maps.Keys(maps.Collect(api.Routes())))
	if !slices.Equal(served, rows) {
		t.Errorf("served are %q, and the table has %q", served, rows)
	}
}

// TestRouteWithoutARow: a route without a row is denied. Control: a route with a row is served.
func TestRouteWithoutARow(t *testing.T) {
	t.Parallel()
	yes := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	handler := api.Listed(map[string]http.Handler{"GET /debug/pprof/": yes, "/healthz": yes, "GET /healthz": yes})
	for path, want := range map[string]int{"/debug/pprof/heap": http.StatusForbidden, "/healthz": http.StatusTeapot, "/": http.StatusNotFound} {
		for method, code := range map[string]int{http.MethodGet: want, http.MethodPost: max(want, http.StatusForbidden)} {
			if path == "/healthz" && method == http.MethodPost {
				code = http.StatusForbidden // the pattern of any method has no row
			}
			if path == "/debug/pprof/heap" && method == http.MethodPost {
				code = http.StatusMethodNotAllowed
			}
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(method, path, nil))
			if w.Code != code {
				t.Errorf("%s %s: %d, want %d", method, path, w.Code, code)
			}
		}
	}
}
