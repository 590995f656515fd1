package gateway

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"palyra/internal/core/progress"
)

// TestLongStartIsLogged: a long start logs its current step, first after two seconds and then
// every five. A quick start logs nothing.
func TestLongStartIsLogged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		takes time.Duration
		want  []string
	}{
		{progress.Patience - time.Millisecond, nil},
		{8 * time.Second, []string{
			`level=INFO msg="still starting" step=store events=2000 total=9000`,
			`level=INFO msg="still starting" step=store events=7000 total=9000`,
			`level=INFO msg="still starting" step=sandbox`,
		}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			w := &startWatch{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			}}))}
			ctx, end := w.begin(t.Context())
			w.next("store")
			counted := progress.From(ctx)
			counted.Expect(9000)
			for range c.takes / time.Second {
				counted.Add(1000)
				time.Sleep(time.Second)
				synctest.Wait()
			}
			time.Sleep(c.takes % time.Second)
			w.next("sandbox")
			if c.want != nil {
				time.Sleep(5 * time.Second)
			}
			end()
			time.Sleep(time.Minute)
			if want := strings.Join(c.want, "\n"); strings.TrimSpace(out.String()) != want {
				t.Errorf("after %s the log has\n%s\nwant\n%s", c.takes, out.String(), want)
			}
		})
	}
}
