package client

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"connectrpc.com/connect"

	"palyra/internal/cli/printer"
)

// TestProgress: a slow response is reported on a terminal after a delay. A fast one is not, nor
// is any without a terminal.
func TestProgress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		terminal bool
		takes    time.Duration
		want     bool
	}{{true, 3 * time.Second, true}, {true, time.Second, false}, {false, 3 * time.Second, false}} {
		synctest.Test(t, func(t *testing.T) {
			var said bytes.Buffer
			a := NewApp(printer.Streams{Err: &said, ErrTerminal: c.terminal})
			call := deadline{out: a.Printer, address: "host:1"}.WrapUnary(func(context.Context, connect.AnyRequest) (connect.AnyResponse, error) {
				time.Sleep(c.takes)
				return nil, nil
			})
			_, _ = call(context.Background(), nil)
			synctest.Wait()
			if got := strings.Contains(said.String(), "waiting for the gateway at host:1"); got != c.want {
				t.Errorf("%+v: said %q", c, said.String())
			}
		})
	}
}
