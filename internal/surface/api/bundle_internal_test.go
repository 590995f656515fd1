package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"palyra/gen/palyra/v1/palyrav1connect"
)

// flushes counts the flushes to the connection.
type flushes struct {
	http.ResponseWriter
	count atomic.Int32
}

func (f *flushes) Flush() { f.count.Add(1) }

// A held message is sent with the next message that is not held, or on release. Other methods
// hold no messages.
func TestBundle(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][4]int32{
		palyrav1connect.GatewayServiceCallToolProcedure:  {0, 1, 1, 2},
		palyrav1connect.GatewayServiceRunStreamProcedure: {0, 1, 1, 2},
		palyrav1connect.GatewayServiceWatchRunProcedure:  {0, 1, 1, 2},
		palyrav1connect.GatewayServiceListToolsProcedure: {1, 2, 3, 3},
	} {
		wire := &flushes{ResponseWriter: httptest.NewRecorder()}
		var got [4]int32
		send := func(w http.ResponseWriter) int32 {
			_, _ = io.WriteString(w, "message")
			_ = http.NewResponseController(w).Flush()
			return wire.count.Load()
		}
		bundle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hold(r.Context(), true)
			got[0] = send(w)
			hold(r.Context(), false)
			got[1] = send(w)
			hold(r.Context(), true)
			got[2] = send(w)
			release(r.Context())
			release(r.Context()) // all messages were already sent
			got[3] = wire.count.Load()
		})).ServeHTTP(wire, httptest.NewRequest(http.MethodPost, path, http.NoBody))
		if got != want {
			t.Errorf("%s: the wire was written to %v times, want %v", path, got, want)
		}
	}
}

// TestBufferedBriefly: a message is buffered for a short time, and sent earlier if another message
// or the end follows.
func TestBufferedBriefly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wire := &flushes{ResponseWriter: httptest.NewRecorder()}
		want := func(when string, n int32) {
			t.Helper()
			synctest.Wait()
			if got := wire.count.Load(); got != n {
				t.Errorf("%s the wire was written to %d times, want %d", when, got, n)
			}
		}
		bundle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			send := func() {
				_, _ = io.WriteString(w, "message")
				_ = http.NewResponseController(w).Flush()
			}
			hold(r.Context(), true)
			send()
			holdAWhile(r.Context())
			time.Sleep(aWhile - time.Millisecond)
			want("before the while is over", 0)
			time.Sleep(time.Millisecond)
			want("after it", 1)

			hold(r.Context(), true)
			send()
			holdAWhile(r.Context())
			hold(r.Context(), false)
			send()
			want("with the next message", 2)
			time.Sleep(2 * aWhile)
			want("long after that", 2)

			hold(r.Context(), true)
			send()
			holdAWhile(r.Context())
			hold(r.Context(), true)
			time.Sleep(2 * aWhile)
			want("held for longer", 2)
			send()
			holdAWhile(r.Context())
		})).ServeHTTP(wire, httptest.NewRequest(http.MethodPost, palyrav1connect.GatewayServiceCallToolProcedure, http.NoBody))
		time.Sleep(2 * aWhile)
		want("after the end", 2) // the server has the response, and sends it
	})
}
