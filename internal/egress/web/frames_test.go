package web

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"palyra/internal/core/must"
	"palyra/internal/egress"
	"palyra/internal/egress/secret"
)

// frame returns a host's frame, with the shortest form of the payload's length.
func frame(payload string) string {
	b := []byte{0x81, byte(len(payload))}
	switch {
	case len(payload) > 0xffff:
		b = binary.BigEndian.AppendUint64([]byte{0x81, 127}, uint64(len(payload)))
	case len(payload) > 125:
		b = binary.BigEndian.AppendUint16([]byte{0x81, 126}, uint16(len(payload)))
	}
	return string(b) + payload
}

// masked returns a frame as clients send it.
func masked(text string) string {
	key := [4]byte{1, 2, 3, 4}
	in := bufio.NewReader(strings.NewReader(text))
	if _, err := (&frames{from: in}).header(); err != nil {
		panic(err)
	}
	payload, _ := io.ReadAll(in)
	head := []byte(text[:len(text)-len(payload)])
	head[1] |= 0x80
	for i := range payload {
		payload[i] ^= key[i%4]
	}
	return string(head) + string(key[:]) + string(payload)
}

// message reads one message as a receiver does.
func message(in *bufio.Reader, fromClient bool) (string, error) {
	return (&receiver{in: in, fromClient: fromClient}).next()
}

type receiver struct {
	in         *bufio.Reader
	fromClient bool
	began      bool
	text       string
}

// next returns a message, or a control frame that arrives before its end.
func (r *receiver) next() (string, error) {
	for {
		first, payload, err := r.frame()
		isControl, isLast, continues := first&8 != 0, first&0x80 != 0, first&0x0f == 0
		switch {
		case err != nil:
			return "", err
		case isControl && (!isLast || len(payload) > 125), !isControl && continues != r.began:
			return "", errFrame
		case isControl:
			return fmt.Sprintf("control %x: %s", first&0x0f, payload), nil
		}
		r.began, r.text = !isLast, r.text+string(payload)
		if isLast {
			text := r.text
			r.text = ""
			return text, nil
		}
	}
}

func (r *receiver) frame() (first byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(r.in, head); err != nil {
		return 0, nil, err
	}
	size := int(head[1] & 0x7f)
	wide, key := make([]byte, 2), make([]byte, 4)
	if size == 126 {
		_, err = io.ReadFull(r.in, wide)
		size = int(binary.BigEndian.Uint16(wide))
	}
	if size == 127 || head[0]&0x70 != 0 || head[1]&0x80 != 0 != r.fromClient {
		return 0, nil, errFrame
	}
	if err == nil && r.fromClient {
		_, err = io.ReadFull(r.in, key)
	}
	payload = make([]byte, size)
	if err == nil {
		_, err = io.ReadFull(r.in, payload)
	}
	for i := range payload {
		payload[i] ^= key[i%4]
	}
	return head[0], payload, err
}

// used returns a world that has used its secret.
func used(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "example.org:443")
	w.secrets()
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.org/", nil))(t)
	r.Header.Set("Authorization", placeholder)
	to, err := egress.ParseTarget("example.org:443")
	if err == nil {
		err = w.front.Secrets.Apply(t.Context(), r, to, true)
	}
	must.Do(t, err)
	return w
}

// TestFramesComeOutWhole: a message is forwarded without waiting for the next one, even if its
// end is the prefix of a value.
func TestFramesComeOutWhole(t *testing.T) {
	t.Parallel()
	w := used(t)
	for _, payload := range []string{"", "{}", value[:10], value[:10] + "x", strings.Repeat("a", 126), strings.Repeat("b", 70_000), "\n" + value[:1]} {
		host, far := io.Pipe()
		f := newFrames(host, w.front.Secrets, false)
		text := frame(payload)
		sent := make(chan error, 1)
		go func() {
			_, err := io.WriteString(far, text)
			sent <- err
		}()
		if got, err := message(bufio.NewReader(f), false); err != nil || got != payload {
			t.Errorf("%.30q gives %.30q, %v", payload, got, err)
		}
		must.Check(t, <-sent)
		host.Close()
	}
}

// TestFramesAreScrubbed splits the stream in every way that readers do.
func TestFramesAreScrubbed(t *testing.T) {
	t.Parallel()
	w := used(t)
	half := len(value) / 2
	text := frame("one") + frame("it is "+value+"!") + frame(strings.Repeat("x", 50_000)+value) +
		"\x02" + frame(value[:half])[1:] + "\x89\x04ping" + "\x80" + frame(value[half:])[1:] + "\x8a" + frame(value)[1:]
	want := []string{"one", "it is " + placeholder + "!", strings.Repeat("x", 50_000) + placeholder, "control 9: ping", placeholder, "control a: " + placeholder}
	for name, cut := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader, "halves": iotest.HalfReader, "end with data": iotest.DataErrReader} {
		in := bufio.NewReader(newFrames(cut(strings.NewReader(text)), w.front.Secrets, false))
		for i, want := range want {
			if got, err := message(in, false); err != nil || got != want {
				t.Errorf("%s: message %d is %.60q, %v", name, i, got, err)
			}
		}
		if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: it ends with %v", name, err)
		}
	}
}

// TestFramesThatCannotBeSearched: such frames end the connection, and no part of them is
// forwarded.
func TestFramesThatCannotBeSearched(t *testing.T) {
	t.Parallel()
	w := used(t)
	for name, bad := range map[string]string{
		"masked": "\x81\x85abcdhello", "compressed": "\xc1\x05hello", "no length": "\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xffhello",
		"continues nothing": "\x80\x05hello", "unknown kind": "\x83\x05hello", "long ping": "\x89\x7e\x00\x7e" + strings.Repeat("a", 126), "ping in parts": "\x09\x01a",
		"interrupted": "\x01\x00\x81\x05hello",
	} {
		got, err := io.ReadAll(newFrames(strings.NewReader(frame("fine")+bad), w.front.Secrets, false))
		if !errors.Is(err, errFrame) || string(got) != frame("fine") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	// A truncated message is not reported as complete.
	for _, text := range []string{"\x81", "\x81\x7e\x00", "\x81\x05he", "\x01\x02he"} {
		got, err := io.ReadAll(newFrames(strings.NewReader(text), w.front.Secrets, false))
		if !errors.Is(err, io.ErrUnexpectedEOF) || len(got) > 0 && got[0]&0x80 != 0 {
			t.Errorf("%q cut off: %q, %v", text, got, err)
		}
	}
}

// TestFramesAreWatched sends a placeholder in masked client frames.
func TestFramesAreWatched(t *testing.T) {
	t.Parallel()
	w := used(t)
	half := len(placeholder) / 2
	for name, bad := range map[string]string{
		"one frame":  masked(frame("key " + placeholder)),
		"two frames": "\x01" + masked(frame(placeholder[:half]))[1:] + masked("\x89\x01p") + "\x80" + masked(frame(placeholder[half:]))[1:],
		"ping":       "\x89" + masked(frame(placeholder))[1:],
	} {
		in := bufio.NewReader(newFrames(strings.NewReader(masked(frame("fine"))+bad), w.front.Secrets, true))
		if got, err := message(in, true); err != nil || got != "fine" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		rest, err := message(in, true)
		if strings.HasPrefix(rest, "control 9: p") && err == nil && name == "two frames" {
			rest, err = message(in, true)
		}
		if secret.Word(err) != egress.ReasonSecretMisplaced || strings.Contains(rest, placeholder) {
			t.Errorf("%s: %q, %v", name, rest, err)
		}
	}
	// An unmasked client frame is refused (RFC 6455 section 5.1).
	if _, err := io.ReadAll(newFrames(strings.NewReader(frame("x")), nil, true)); !errors.Is(err, errFrame) {
		t.Errorf("not masked: %v", err)
	}
}

// TestShortFramesAreCheap: the setup costs of one frame do not multiply with the number of
// frames, and short frames are forwarded together.
//
// Not parallel: it counts the allocations of the process.
func TestShortFramesAreCheap(t *testing.T) {
	w := used(t)
	const many = 10_000
	for name, test := range map[string]struct {
		text   string
		masked bool
	}{
		"messages":             {frame("x"), false},
		"messages in parts":    {"\x01\x01x\x80\x00", false},
		"pings":                {"\x89\x01x", false},
		"of a client":          {masked(frame("x")), true},
		"a client's pings":     {"\x89" + masked(frame("x"))[1:], true},
		"one message, parts":   {"\x00\x01\n", false},
		"a client's, in parts": {"\x00" + masked(frame("\n"))[1:], true},
	} {
		text := strings.Repeat(test.text, many)
		if strings.HasPrefix(test.text, "\x00") {
			text = "\x01" + text[1:]
		}
		reads := 0
		allocs := testing.AllocsPerRun(1, func() {
			f := newFrames(strings.NewReader(text), w.front.Secrets, test.masked)
			room := make([]byte, 32<<10)
			for reads = 0; ; reads++ {
				if _, err := f.Read(room); err != nil {
					break
				}
			}
		})
		if allocs > many/10 || reads > many/100 {
			t.Errorf("%s: %.0f allocations, %d reads for %d frames", name, allocs, reads, many)
		}
	}
}

// TestPingsInAMessage: an endless message does not delay control frames between its frames, and
// these are not accumulated.
func TestPingsInAMessage(t *testing.T) {
	t.Parallel()
	w := used(t)
	ping := "\x89\x7d" + strings.Repeat("p", 125)
	in, out := io.Pipe()
	defer in.Close()
	go func() {
		_, _ = io.WriteString(out, "\x01\x00")
		for {
			if _, err := io.WriteString(out, ping); err != nil {
				return
			}
		}
	}()
	f := newFrames(in, w.front.Secrets, false)
	room := make([]byte, 1<<20)
	for range 1000 {
		n, err := f.Read(room)
		if err != nil || n < len(ping) || n > 2*mostPayload || string(room[:len(ping)]) != ping {
			t.Fatalf("%d, %.20q, %v", n, room[:n], err)
		}
	}
}

// FuzzFrames: the output is well-formed and contains the same messages.
func FuzzFrames(f *testing.F) {
	f.Add([]byte(frame("a")+frame(strings.Repeat("b", 20_000))), false)
	f.Add([]byte("\x01\x01a\x89\x01p\x80\x01b"), false)
	f.Add([]byte(masked(frame("abcde"))), true)
	f.Fuzz(func(t *testing.T, raw []byte, client bool) {
		out, err := io.ReadAll(newFrames(bytes.NewReader(raw), nil, client))
		again, second := io.ReadAll(newFrames(bytes.NewReader(out), nil, client))
		if err == nil && second != nil || errors.Is(second, errFrame) {
			t.Fatalf("%q gives %q (%v), which is read with %v", raw, out, err, second)
		}
		one := receiver{in: bufio.NewReader(bytes.NewReader(out)), fromClient: client}
		two := receiver{in: bufio.NewReader(bytes.NewReader(again)), fromClient: client}
		for second == nil {
			a, errA := one.next()
			b, errB := two.next()
			if a != b || (errA == nil) != (errB == nil) {
				t.Fatalf("%q gives %q, %v and then %q, %v", raw, a, errA, b, errB)
			}
			if errA != nil {
				break
			}
		}
	})
}
