package secret

import (
	"io"
	"strings"
	"sync"
)

// markers finds the beginning of placeholders, plain and encoded.
var markers = sync.OnceValue(func() *matcher {
	var needles []needle
	for _, form := range encodings([]byte(marker)) {
		needles = append(needles, needle{text: form})
	}
	for _, dash := range []string{"%2D", "%2d"} {
		needles = append(needles, needle{text: []byte(strings.ReplaceAll(marker, "-", dash))})
	}
	return newMatcher(needles)
})

// Marked reports whether a short text contains text similar to a placeholder, in any case and
// percent-encoding.
func Marked(s string) bool {
	if len(s) < len(marker) {
		return false
	}
	if len(markers().all([]byte(s))) > 0 {
		return true
	}
	plain := unescaped(s)
	if strings.Contains(strings.ToLower(plain), marker) {
		return true
	}
	return plain != s && len(markers().all([]byte(plain))) > 0
}

// Watch returns a reader that fails at the first text similar to a placeholder, plain or in base64,
// hexadecimal, percent-encoding or an escape of JSON or HTML. It does not recognise compressed,
// encrypted or masked text, such as a WebSocket frame; such text is not replaced either. No byte of
// the placeholder is returned before the error.
func (x *Exchange) Watch(r io.Reader) io.Reader {
	if x.Idle() {
		return r
	}
	return &watching{from: r}
}

// Body is Watch for the body of a request.
func (x *Exchange) Body(b io.ReadCloser) io.ReadCloser {
	if x.Idle() || b == nil {
		return b
	}
	return &body{Reader: x.Watch(b), Closer: b}
}

type body struct {
	io.Reader
	io.Closer
}

type watching struct {
	Watcher
	from io.Reader
	err  error
}

func (w *watching) Read(p []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	n, err := w.from.Read(p)
	if _, w.err = w.Next(p[:n], false); w.err != nil {
		return 0, w.err
	}
	return n, err
}

// Watcher is Watch for texts that are passed to it in pieces, one text after the other. The zero
// Watcher is ready for the first text.
type Watcher struct {
	// before holds the most recent bytes in which a marker may have begun.
	before []byte
}

// Next returns a piece of a text, or an error if a placeholder ends in it; last marks the last
// piece of the text.
func (w *Watcher) Next(piece []byte, last bool) ([]byte, error) {
	if w.see(piece) {
		return nil, misplaced("what is sent")
	}
	if last {
		w.before = w.before[:0]
	}
	return piece, nil
}

// see reports whether a marker ends in these bytes.
func (w *Watcher) see(b []byte) bool {
	overlap := markers().most - 1
	w.before = append(w.before, b[:min(overlap, len(b))]...)
	if len(markers().all(w.before)) > 0 || len(markers().all(b)) > 0 {
		return true
	}
	if len(b) >= overlap {
		w.before = append(w.before[:0], b[len(b)-overlap:]...)
	} else if extra := len(w.before) - overlap; extra > 0 {
		w.before = append(w.before[:0], w.before[extra:]...)
	}
	return false
}
