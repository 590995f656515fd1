package web

import (
	"io"

	"palyra/internal/egress/secret"
)

// watched is a WebSocket to a host while there are secrets. What the host sends
// is scrubbed: a value that it sends back breaks the frame that it is in, and
// does not get through. What the program sends is watched for placeholders as
// far as that goes: clients mask their frames (RFC 6455 section 5.3), and a
// placeholder is worth nothing there, as no value takes its place.
type watched struct {
	io.ReadWriteCloser
	from    io.Reader
	secrets *secret.Exchange
	tell    func(why string)
}

func newWatched(host io.ReadWriteCloser, secrets *secret.Exchange, tell func(why string)) *watched {
	return &watched{ReadWriteCloser: host, from: secrets.Scrub(host), secrets: secrets, tell: tell}
}

func (w *watched) Read(p []byte) (int, error) { return w.from.Read(p) }

// ReadFrom is what io.Copy uses to send.
func (w *watched) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(w.ReadWriteCloser, w.secrets.Watch(r))
	if why := secret.Word(err); why != "" {
		w.tell(why)
	}
	return n, err
}
