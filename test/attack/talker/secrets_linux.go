package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sync/errgroup"
)

// secrets are attacks that search for a value that must not be visible inside. The value is derived
// from the token of its test, so that a search can recognize it without receiving it.
func secrets() map[string]attack {
	return map[string]attack{"hunt": hunt, "say": say, "oracle": oracle}
}

// planted returns the value of a token.
func planted(token string) string {
	sum := sha256.Sum256([]byte("palyra secret of " + token))
	return "planted-" + hex.EncodeToString(sum[:12])
}

// disguises returns the encodings of a value in which it might occur.
func disguises(value string) [][]byte {
	list := [][]byte{[]byte(value), []byte(hex.EncodeToString([]byte(value)))}
	// The base64 of a longer text depends on the alignment of the value.
	for skip := range 3 {
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + value))
		list = append(list, []byte(text[4:len(text)-4]))
	}
	return list
}

func holds(text []byte, value string) bool {
	for _, d := range disguises(value) {
		if bytes.Contains(text, d) {
			return true
		}
	}
	return false
}

// hunt searches all readable data inside: "environ" the variables and arguments of all processes,
// "descriptors" their open files, "proc" their files in /proc, "memory" their memory, and "files"
// all files except the system's.
func hunt(args []string) (string, error) {
	value := planted(args[1])
	end, err := client(args[0] == "memory", args[2:])
	if err != nil {
		return "", err
	}
	defer end()
	var found string
	look := func(name string) {
		f, err := os.Open(name)
		if err != nil {
			return
		}
		defer f.Close()
		if text, _ := io.ReadAll(io.LimitReader(f, 8<<20)); found == "" && holds(text, value) {
			found = name
		}
	}
	switch args[0] {
	case "environ":
		each("/proc/[0-9]*/environ", look)
		each("/proc/[0-9]*/cmdline", look)
		if holds([]byte(strings.Join(os.Environ(), "\n")), value) {
			found = "a variable"
		}
	case "descriptors":
		each("/proc/[0-9]*/fd/[03-9]*", look)
	case "proc":
		each("/proc/[0-9]*/*", look)
		each("/proc/[0-9]*/net/*", look)
	case "memory":
		each("/proc/[0-9]*/mem", func(name string) {
			if filepath.Base(filepath.Dir(name)) != fmt.Sprint(os.Getpid()) && inMemory(name, value) {
				found = name
			}
		})
	case "files":
		for _, dir := range []string{"/etc", "/home", "/run", "/tmp", "/var", "/dev/shm", "/workspace", "/host/" + args[1]} {
			_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
				if err == nil && d.Type().IsRegular() {
					look(name)
				}
				return nil
			})
		}
	}
	if found == "" {
		return "", errors.New("it is nowhere")
	}
	return found, nil
}

// client holds a conversation with the secret: in this process, or in another one that still runs
// when the hunt starts.
func client(apart bool, steps []string) (end func(), err error) {
	if !apart {
		_, err := talk(steps)
		return func() {}, err
	}
	cmd := exec.Command("/proc/self/exe", append(append([]string{"talk"}, steps...), "say here", "pause 10m")...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if strings.TrimSpace(line) != "here" {
		err = errors.Join(fmt.Errorf("the conversation failed: %s", line), err)
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}, err
}

func each(pattern string, look func(name string)) {
	names, _ := filepath.Glob(pattern)
	for _, name := range names {
		if name != "/proc/self/mem" {
			look(name)
		}
	}
}

// inMemory searches the mapped memory of a process.
func inMemory(name, value string) bool {
	maps, err := os.ReadFile(filepath.Join(filepath.Dir(name), "maps"))
	if err != nil {
		return false
	}
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	for line := range strings.SplitSeq(string(maps), "\n") {
		var from, to int64
		if _, err := fmt.Sscanf(line, "%x-%x rw", &from, &to); err != nil || to-from > 64<<20 {
			continue
		}
		text := make([]byte, to-from)
		if n, _ := f.ReadAt(text, from); holds(text[:n], value) {
			return true
		}
	}
	return false
}

// say writes the value as a program that has it would: to standard output or error, in plain text,
// encoded, or in pieces.
func say(args []string) (string, error) {
	if _, err := talk(args[2:]); err != nil {
		return "", err
	}
	value := planted(args[1])
	out := os.Stdout
	if strings.HasPrefix(args[0], "error-") {
		out = os.Stderr
	}
	switch _, how, _ := strings.Cut(args[0], "-"); how {
	case "base64":
		value = base64.StdEncoding.EncodeToString([]byte("user:" + value))
	case "pieces":
		for _, b := range []byte(value) {
			if _, err := out.Write([]byte{b}); err != nil {
				return "", err
			}
			time.Sleep(time.Millisecond)
		}
		value = ""
	case "far": // across the limit of the stored part
		value = strings.Repeat(".", 32<<10-len(value)/2) + value
	}
	_, err := fmt.Fprintln(out, value)
	return "", err
}

// oracle guesses a character of the value. A server sends the known part with a guess, and the time
// until it arrives is measured. If only the right guess is late, the delay discloses it. The
// arguments are the token, the address and the name of the server, and then a conversation that
// uses the value.
func oracle(args []string) (string, error) {
	if _, err := talk(args[3:]); err != nil {
		return "", err
	}
	const digits = "0123456789abcdef"
	value := planted(args[0])
	known, next := value[:len("planted-")+4], value[len("planted-")+4]
	late := slices.Repeat([]time.Duration{time.Hour}, len(digits))
	for range 3 { // a busy machine is also late, but not every time
		var all errgroup.Group
		for i, guess := range digits {
			all.Go(func() error {
				took, err := hearGuess(args[1], args[2], known, string(guess))
				late[i] = min(late[i], took)
				return err
			})
		}
		if err := all.Wait(); err != nil {
			return "", err
		}
	}
	slowest := slices.Index(late, slices.Max(late))
	sorted := slices.Sorted(slices.Values(late))
	if digits[slowest] != next || sorted[len(sorted)-1]-sorted[len(sorted)-2] < 500*time.Millisecond {
		return "", fmt.Errorf("the guesses took %v", late)
	}
	return fmt.Sprintf("the next character is %c", next), nil
}

// hearGuess makes the server send the known part with one more character, and returns the delay.
func hearGuess(at, name, known, guess string) (time.Duration, error) {
	var c conversation
	defer c.hangUp()
	_, err := c.take([]string{"tcp " + at, "tls " + name + " http/1.1",
		`send GET /guess?text=` + known + guess + ` HTTP/1.1\r\nHost: ` + name + `\r\nConnection: close\r\n\r\n`, "want the text is "})
	if err != nil {
		return 0, err
	}
	started := time.Now()
	err = c.want(known) // it is delayed together with the right guess
	return time.Since(started), err
}

// secret reads a whole response, and fails unless it contains the value of a token.
func (c *conversation) secret(token string) error {
	text, err := c.rest()
	text = append(c.heard, text...)
	if holds(text, planted(token)) {
		return nil
	}
	// A body may be chunked and compressed.
	if answer, bad := http.ReadResponse(bufio.NewReader(bytes.NewReader(text)), nil); bad == nil {
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		if z, bad := gzip.NewReader(bytes.NewReader(body)); bad == nil {
			body, _ = io.ReadAll(z)
		}
		if holds(body, planted(token)) {
			return nil
		}
	}
	return fmt.Errorf("it is not in %.300q: %w", text, errors.Join(errNoAnswer, err))
}

// rest reads until the peer closes the connection or, by HTTP/2, has ended a stream.
func (c *conversation) rest() ([]byte, error) {
	if c.streams == 0 {
		return io.ReadAll(c.conn)
	}
	var text bytes.Buffer
	framer := http2.NewFramer(nil, io.TeeReader(c.conn, &text))
	for {
		f, err := framer.ReadFrame()
		switch {
		case errors.Is(err, io.EOF):
			return text.Bytes(), nil
		case err != nil:
			return text.Bytes(), err
		case f.Header().Type == http2.FrameRSTStream || f.Header().Type == http2.FrameGoAway:
			return text.Bytes(), nil
		case f.Header().Type == http2.FrameData && f.Header().Flags.Has(http2.FlagDataEndStream):
			return text.Bytes(), nil
		}
	}
}
