package journal

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
)

// exportStream reads an export from the gateway as bytes.
type exportStream struct {
	receive func() ([]byte, error)
	stop    func() error
	rest    []byte
	// failed is the stream's own error, which is not one of the data.
	failed error
}

// openExport begins an export after a sequence number.
func openExport(ctx context.Context, g *client.Gateway, after int64) (*exportStream, error) {
	stream, err := g.Journal.ExportJournal(ctx, &palyrav1.ExportJournalRequest{After: after})
	if err != nil {
		return nil, err
	}
	return &exportStream{receive: receiver(stream), stop: stream.Close}, nil
}

func receiver(stream *connect.ServerStreamForClient[palyrav1.ExportJournalResponse]) func() ([]byte, error) {
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
		s.rest = data
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

func (s *exportStream) close() { _ = s.stop() }
