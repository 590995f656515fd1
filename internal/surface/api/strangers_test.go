package api_test

import (
	"io"
	"net/http"
	"testing"
	"time"

	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/core/must"
)

// TestUnauthenticatedBodyIsNotRead: an unauthenticated caller is refused before its body is
// read. Control: the body of an authenticated caller is read.
func TestUnauthenticatedBodyIsNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	post := func(c *http.Client) (status chan int, body *io.PipeWriter) {
		reader, writer := io.Pipe()
		status = make(chan int, 1)
		req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+palyrav1connect.StatusServiceGetStatusProcedure, reader))(t)
		req.Header.Set("Content-Type", "application/json")
		go func() {
			res, err := c.Do(req)
			if err != nil {
				status <- 0
				return
			}
			_ = res.Body.Close()
			status <- res.StatusCode
		}()
		return status, writer
	}
	got, body := post(w.connect("", nil).http)
	if code := must.Receive(t, "the answer before a stranger's body", got); code != http.StatusUnauthorized {
		t.Errorf("a stranger whose body never ends got status %d", code)
	}
	_ = body.Close()

	got, body = post(w.alice.http)
	select {
	case code := <-got:
		t.Errorf("the control: a known caller was answered %d before its body ended", code)
	case <-time.After(50 * time.Millisecond):
	}
	must.Get(body.Write([]byte(`{}`)))(t)
	_ = body.Close()
	if code := <-got; code != http.StatusOK {
		t.Errorf("the control got status %d", code)
	}
}
