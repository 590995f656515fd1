package output

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"
)

func checkCapture(t *testing.T, all []byte, keep int64, pieces int) {
	t.Helper()
	c := NewCapture(keep)
	for rest := all; len(rest) > 0; {
		n := min(pieces, len(rest))
		_, _ = c.Write(rest[:n])
		rest = rest[n:]
	}
	s := c.Stream()
	sum := sha256.Sum256(all)
	if s.Total != int64(len(all)) || s.SHA256 != "sha256:"+hex.EncodeToString(sum[:]) {
		t.Fatalf("keep %d of %d in pieces of %d: total %d", keep, len(all), pieces, s.Total)
	}
	if int64(len(all)) <= keep {
		if s.Truncated || !bytes.Equal(s.Head, all) || s.Tail != nil || s.KeptSHA256 != s.SHA256 {
			t.Fatalf("keep %d of %d in pieces of %d: head %q tail %q", keep, len(all), pieces, s.Head, s.Tail)
		}
		return
	}
	kept := sha256.Sum256(append(bytes.Clone(s.Head), s.Tail...))
	if s.KeptSHA256 != "sha256:"+hex.EncodeToString(kept[:]) {
		t.Fatalf("keep %d of %d in pieces of %d: the digest of what is kept is of something else", keep, len(all), pieces)
	}
	head, tail := keep-keep/2, keep/2
	if !s.Truncated || !bytes.Equal(s.Head, all[:head]) || !bytes.Equal(s.Tail, all[int64(len(all))-tail:]) {
		t.Fatalf("keep %d of %d in pieces of %d: head %q tail %q", keep, len(all), pieces, s.Head, s.Tail)
	}
}

func TestCapture(t *testing.T) {
	t.Parallel()
	all := []byte("abcdefghijklmnopqrstuvwxyz0123456789")
	for keep := range int64(40) {
		for length := range len(all) + 1 {
			for _, pieces := range []int{1, 2, 3, 7, 36} {
				checkCapture(t, all[:length], keep+1, pieces)
			}
		}
	}
}

func FuzzCapture(f *testing.F) {
	f.Add([]byte("some output"), int64(4), 3)
	f.Fuzz(func(t *testing.T, all []byte, keep int64, pieces int) {
		if keep < 1 || keep > 1<<16 || pieces < 1 {
			return
		}
		checkCapture(t, all, keep, pieces)
	})
}
