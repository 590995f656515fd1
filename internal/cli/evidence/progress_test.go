package evidence

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/gen/palyra/v1/palyrav1connect"
	"palyra/internal/cli/client"
	"palyra/internal/cli/printer"
	"palyra/internal/core/must"
	"palyra/internal/core/reason"
)

// sized is a gateway that reports the size of its journal; 0 is unknown.
type sized struct {
	palyrav1connect.StatusServiceClient
	size  int64
	asked int
}

func (s *sized) GetStatus(context.Context, *palyrav1.GetStatusRequest) (*palyrav1.GetStatusResponse, error) {
	s.asked++
	if s.size == 0 {
		return nil, reason.Errorf(reason.PermissionDenied, "no")
	}
	return &palyrav1.GetStatusResponse{JournalSize: s.size}, nil
}

// slowExport sends a header, two events each second, and a trailer.
func slowExport(events int) *exportStream {
	sent := 0
	return &exportStream{receive: func() ([]byte, error) {
		switch {
		case sent == 0:
			sent++
			return []byte("header\n"), nil
		case sent > events+1:
			return nil, io.EOF
		case sent > events:
			sent++
			return []byte("trailer\n"), nil
		}
		time.Sleep(time.Second)
		sent += 2
		return []byte("an event\nano" + "ther\n"), nil
	}}
}

// TestExportProgress: on a terminal, progress is displayed after two seconds, with the total if the
// gateway reports it. In a script, it is neither displayed nor requested.
func TestExportProgress(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		terminal bool
		size     int64
		events   int
		asked    int
		want     string
	}{
		{"known", true, 106, 6, 1, "exporting: 4 of 6 events (66 %)"},
		{"unknown", true, 0, 6, 1, "exporting: 4 events"},
		{"quick", true, 102, 2, 1, ""},
		{"a script", false, 106, 6, 0, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var said, file bytes.Buffer
				a := &journalCommands{client.NewApp(printer.Streams{Err: &said, ErrTerminal: c.terminal, Width: 80})}
				status := &sized{size: c.size}
				must.Do(t, a.exportTo(t.Context(), &file, &client.Gateway{Status: status}, slowExport(c.events), 100))
				if got := said.String(); !strings.Contains(got, c.want) || c.want == "" && got != "" {
					t.Errorf("said %q, want %q", got, c.want)
				}
				if status.asked != c.asked || strings.Count(file.String(), "\n") != c.events+2 {
					t.Errorf("the gateway was asked %d times; the file is %q", status.asked, file.String())
				}
			})
		})
	}
}
