package bubblewrap

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"

	"palyra/internal/sandbox"
)

// capture keeps the start and the end of one stream and a digest of all of it.
// Only its reader touches it until the reader is done.
type capture struct {
	head, tail []byte
	// next is where the ring of the tail is written next, once it is full.
	next  int
	keep  int64
	total int64
	hash  hash.Hash
}

func newCapture(keep int64) *capture {
	return &capture{keep: keep, hash: sha256.New()}
}

// Write never fails; it implements io.Writer.
func (c *capture) Write(chunk []byte) (int, error) {
	n := len(chunk)
	c.total += int64(n)
	c.hash.Write(chunk)
	if room := int(c.keep-c.keep/2) - len(c.head); room > 0 {
		take := min(room, len(chunk))
		c.head = append(c.head, chunk[:take]...)
		chunk = chunk[take:]
	}
	c.ring(chunk)
	return n, nil
}

func (c *capture) ring(chunk []byte) {
	size := int(c.keep / 2)
	if len(chunk) > size {
		chunk = chunk[len(chunk)-size:]
	}
	if room := size - len(c.tail); room > 0 {
		take := min(room, len(chunk))
		c.tail = append(c.tail, chunk[:take]...)
		chunk = chunk[take:]
	}
	for len(chunk) > 0 {
		n := copy(c.tail[c.next:], chunk)
		chunk = chunk[n:]
		c.next = (c.next + n) % size
	}
}

func (c *capture) stream() sandbox.Stream {
	s := sandbox.Stream{Total: c.total, SHA256: "sha256:" + hex.EncodeToString(c.hash.Sum(nil))}
	tail := append(append([]byte{}, c.tail[c.next:]...), c.tail[:c.next]...)
	if c.total > c.keep {
		s.Head, s.Tail, s.Truncated = c.head, tail, true
		return s
	}
	s.Head = append(c.head, tail...)
	return s
}

// drain reads until the stream ends or is closed under it. It calls flooded
// once when the stream passes limit, and goes on reading, so that what is
// killed for it is never blocked by it.
func (c *capture) drain(r io.Reader, limit int64, each func([]byte), flooded func()) error {
	chunk := make([]byte, 64<<10)
	over := false
	for {
		n, err := r.Read(chunk)
		if n > 0 {
			_, _ = c.Write(chunk[:n])
			if each != nil && !over {
				each(chunk[:n])
			}
			if !over && c.total > limit {
				over = true
				flooded()
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, fs.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
