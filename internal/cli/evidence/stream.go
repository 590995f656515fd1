package evidence

import (
	"bytes"
	"context"
	"errors"
	"io"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/core/progress"
	"palyra/internal/core/rpc"
)

// exportStream reads an export from the gateway as bytes.
type exportStream struct {
	receive func() ([]byte, error)
	stop    func() error
	rest    []byte
	// counted counts the received events; headed is true after the header.
	counted progress.Meter
	headed  bool
	// failed is the error of the stream itself, not of the data.
	failed error
}

// openExport starts an export.
func openExport(ctx context.Context, g *client.Gateway, req *palyrav1.ExportJournalRequest) (*exportStream, error) {
	stream, err := g.Journal.ExportJournal(ctx, req)
	if err != nil {
		return nil, err
	}
	return &exportStream{receive: receiver(stream), stop: stream.Close}, nil
}

// journalSize returns the number of events in the gateway's journal for a progress display; 0
// if there is no such display or the number is unknown.
func journalSize(ctx context.Context, a *client.App, g *client.Gateway) int64 {
	if !a.Watched() {
		return 0
	}
	status, err := g.Status.GetStatus(ctx, &palyrav1.GetStatusRequest{})
	if err != nil {
		return 0 // the export does not need it
	}
	return status.GetJournalSize()
}

func receiver(stream *rpc.ServerStream[*palyrav1.ExportJournalResponse]) func() ([]byte, error) {
	return func() ([]byte, error) {
		if stream.Receive() {
			return stream.Msg().GetData(), nil
		}
		if err := stream.Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
}

// Read implements io.Reader.
func (s *exportStream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		data, err := s.receive()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				s.failed = err
			}
			return 0, err
		}
		s.count(data)
		s.rest = data
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// count counts lines: each after the first is an event, except the last.
func (s *exportStream) count(data []byte) {
	lines := bytes.Count(data, []byte{'\n'})
	if lines > 0 && !s.headed {
		s.headed = true
		lines--
	}
	s.counted.Add(int64(lines))
}

func (s *exportStream) close() { _ = s.stop() }
