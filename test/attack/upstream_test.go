//go:build linux

package attack

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

var quiet = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)

// planted returns the secret for a token; the probe derives the same value.
func planted(token string) string {
	sum := sha256.Sum256([]byte("palyra secret of " + token))
	return "planted-" + hex.EncodeToString(sum[:12])
}

// serveAttacker answers every request.
func (s *site) serveAttacker(c net.Conn) {
	s.hit(evil, "a connection")
	r := bufio.NewReader(c)
	text := ""
	if first, _ := r.Peek(1); len(first) > 0 && 'A' <= first[0] && first[0] <= 'Z' { // it may be a method
		text, _ = r.ReadString('\n')
	}
	if strings.Contains(text, "HTTP/1.") {
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(canary), canary)
		return
	}
	_, _ = io.WriteString(c, canary)
}

// serveLeniently is a server that parses HTTP leniently. It uses Transfer-Encoding if chunked
// is set, else Content-Length. It serves every host name, the attacker's and good's.
func (s *site) serveLeniently(conn net.Conn, chunked bool) {
	c := s.watch(conn)
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		first, err := line(r)
		if err != nil {
			return
		}
		if first == "" {
			continue
		}
		header, last := http.Header{}, ""
		for {
			text, err := line(r)
			if err != nil {
				return
			}
			if text == "" {
				break
			}
			name, value, field := strings.Cut(text, ":")
			if !field { // continues the previous line
				header[last] = append(header[last], strings.TrimSpace(text))
				continue
			}
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			header[name], last = append(header[name], strings.TrimSpace(value)), name
		}
		words := append(strings.Fields(first), "", "", "")
		host := header.Get("Host")
		if u, err := url.Parse(words[1]); err == nil && u.Host != "" && host == "" {
			host = u.Host
		}
		if header.Get("Expect") == "" { // a client with Expect gets the answer before the body
			if host, err = skipBody(r, header, host, chunked); err != nil {
				return
			}
		}
		if words[1] == "/visited" {
			select {
			case <-s.visited:
			case <-time.After(patience / 2): // no visitor came
				return
			}
		}
		answer := s.judge(words[0], host, words[1], header)
		status := "200 OK"
		switch {
		case strings.HasPrefix(words[1], "/redirect"):
			status = "302 Found\r\nLocation: http://evil." + s.zone + "/"
		case header.Get("Upgrade") != "" || strings.HasPrefix(words[1], "/upgrade"):
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			continue
		}
		fmt.Fprintf(c, "HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s", status, len(answer), answer)
		if strings.EqualFold(header.Get("Connection"), "close") {
			return
		}
	}
}

func line(r *bufio.Reader) (string, error) {
	text, err := r.ReadString('\n')
	return strings.TrimRight(text, "\r\n"), err
}

// skipBody skips the bytes that a lenient server treats as the body. Fields in a trailer
// override those in the head: a Host there selects the served host.
func skipBody(r *bufio.Reader, h http.Header, host string, chunked bool) (string, error) {
	if chunked && strings.Contains(strings.ToLower(strings.Join(h["Transfer-Encoding"], ",")), "chunked") {
		return skipChunks(r, host)
	}
	lengths := h["Content-Length"]
	if len(lengths) == 0 {
		return host, nil
	}
	n, err := strconv.ParseInt(lengths[len(lengths)-1], 10, 64)
	if err == nil {
		_, err = io.CopyN(io.Discard, r, n)
	}
	return host, err
}

func skipChunks(r *bufio.Reader, host string) (string, error) {
	for {
		text, err := line(r)
		if err != nil {
			return host, err
		}
		size, _, _ := strings.Cut(text, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		if err != nil {
			return host, err
		}
		if n == 0 {
			break
		}
		if _, err := io.CopyN(io.Discard, r, n+2); err != nil {
			return host, err
		}
	}
	for {
		text, err := line(r)
		if err != nil || text == "" {
			return host, err
		}
		if name, value, _ := strings.Cut(text, ":"); strings.EqualFold(name, "Host") {
			host = strings.TrimSpace(value)
		}
	}
}

// judge records the meaning of a request, and returns the answer.
func (s *site) judge(method, host, target string, h http.Header) string {
	if n, most := s.requests.Add(1), s.most.Load().requests; most > 0 && n > most {
		s.hit(forbidden, fmt.Sprint(n, " requests"))
	}
	plain := target
	for range 2 { // like many frameworks
		if decoded, err := url.PathUnescape(plain); err == nil {
			plain = decoded
		}
	}
	plain = path.Clean("/" + strings.ReplaceAll(plain, `\`, "/"))
	for _, name := range []string{"X-Original-Url", "X-Rewrite-Url"} { // like some frameworks
		plain = cmp.Or(h.Get(name), plain)
	}
	for _, name := range []string{"X-Http-Method-Override", "X-Http-Method", "X-Method-Override"} {
		method = cmp.Or(h.Get(name), method)
	}
	what := fmt.Sprintf("%s %s for %s", method, target, host)
	if strings.HasPrefix(strings.ToLower(host), "evil.") || strings.HasPrefix(plain, "/forbidden") || strings.Contains(plain, "evil.") ||
		method == http.MethodConnect || method == http.MethodDelete {
		s.hit(forbidden, what)
		return canary
	}
	s.recordLeak(what, []byte(fmt.Sprint(method, " ", target, h)))
	return "fine"
}

// recordLeak records a secret, or a placeholder, in received data.
func (s *site) recordLeak(what string, text []byte) {
	forms := [][]byte{text}
	for _, word := range bytes.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" []:?&", r) }) {
		if plain, err := base64.StdEncoding.DecodeString(string(word)); err == nil {
			forms = append(forms, plain)
		}
	}
	for _, f := range forms {
		f = bytes.ToLower(f) // header names may arrive in a different case
		if bytes.Contains(f, []byte(s.secret)) {
			s.given.Store(true)
			s.hit(theSecret, what)
		}
		if bytes.Contains(f, []byte("palyra-sec-")) {
			s.hit(placeholder, what)
		}
	}
}

// web answers requests that arrived over TLS.
func (s *site) web(isEvil bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isEvil || strings.HasPrefix(r.TLS.ServerName, "evil.") {
			s.hit(evil, "TLS for "+r.TLS.ServerName)
			_, _ = io.WriteString(w, canary)
			return
		}
		s.good(w, r)
	})
}

func (s *site) good(w http.ResponseWriter, r *http.Request) {
	text := s.judge(r.Method, r.Host, r.URL.RequestURI(), r.Header)
	body, _ := io.ReadAll(r.Body)
	s.recordLeak("the body of "+r.URL.Path, body)
	s.recordLeak("a trailer of "+r.URL.Path, []byte(fmt.Sprint(r.Trailer)))
	switch r.URL.Path {
	case "/echo":
		echo(w, r)
		return
	case "/stored": // data that another run sent
		w.Header().Set("X-Last", s.secret)
		_, _ = io.WriteString(w, "the last was "+s.secret)
		return
	case "/redirect":
		http.Redirect(w, r, "https://evil."+s.zone+"/", http.StatusFound)
		return
	case "/guess":
		s.guess(w, r.URL.Query().Get("text"))
		return
	}
	_, _ = io.WriteString(w, text)
}

// stall is how long good pauses in the middle of an answer.
const stall = time.Second

// guess writes a text, and the rest of the line after a pause.
func (s *site) guess(w http.ResponseWriter, text string) {
	_, _ = io.WriteString(w, "the text is ")
	_ = http.NewResponseController(w).Flush()
	if s.leaky.Load() && strings.HasPrefix(s.secret, text) {
		time.Sleep(stall)
	}
	_, _ = io.WriteString(w, text)
	_ = http.NewResponseController(w).Flush()
	time.Sleep(stall)
	_, _ = io.WriteString(w, "!\n")
}

// echo returns the secret of a request in the requested form.
func echo(w http.ResponseWriter, r *http.Request) {
	got := r.Header.Get("Authorization")
	_, value, _ := strings.Cut(got, " ")
	switch form := r.URL.Query().Get("as"); form {
	case "header":
		w.Header().Set("X-Authorization", got)
	case "cookie":
		w.Header().Set("Set-Cookie", "token="+value)
	case "location":
		w.Header().Set("Location", "/?token="+value)
		w.WriteHeader(http.StatusFound)
	case "trailer":
		w.Header().Set("Trailer", "X-Token")
		_, _ = io.WriteString(w, strings.Repeat(".", 100))
		w.Header().Set("X-Token", value)
	case "chunks":
		for _, b := range []byte(got) {
			_, _ = w.Write([]byte{b})
			_ = http.NewResponseController(w).Flush()
		}
	case "gzip":
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, got)
		_ = z.Close()
	case "base64":
		_, _ = io.WriteString(w, base64.StdEncoding.EncodeToString([]byte("user:"+value)))
	case "hex":
		_, _ = io.WriteString(w, hex.EncodeToString([]byte(value)))
	case "far":
		_, _ = io.WriteString(w, strings.Repeat(".", 1<<20)+got+strings.Repeat(".", 1<<20))
	case "length":
		w.Header().Set("Content-Length", strconv.Itoa(len(got)))
		_, _ = io.WriteString(w, got)
	case "early":
		w.Header().Set("Link", "<"+value+">")
		w.WriteHeader(http.StatusEarlyHints)
	case "error":
		http.Error(w, "not allowed: "+got, http.StatusUnauthorized)
	default:
		_, _ = io.WriteString(w, got)
	}
}

// watching wraps the listener of good and records received data.
type watching struct {
	net.Listener
	site *site
}

func (l watching) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.site.watch(c), nil
}

// watch counts a connection and records the data on it.
func (s *site) watch(c net.Conn) *watched {
	if n, most := s.opened.Add(1), s.most.Load().connections; most > 0 && n > most {
		s.hit(forbidden, fmt.Sprint(n, " connections"))
	}
	if n, most := s.open.Add(1), s.most.Load().concurrent; most > 0 && n > most {
		s.hit(forbidden, fmt.Sprint(n, " connections at one time"))
	}
	return &watched{Conn: c, site: s}
}

type watched struct {
	net.Conn
	site *site
	once sync.Once
}

func (c *watched) Close() error {
	c.once.Do(func() { c.site.open.Add(-1) })
	return c.Conn.Close()
}

func (c *watched) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.site.hit(anyByte, fmt.Sprintf("%.40q", b[:n]))
		c.site.recordLeak("a connection", b[:n])
		if bytes.Contains(b[:n], []byte("evil."+c.site.zone)) {
			c.site.hit(evilName, fmt.Sprintf("in %d bytes", n))
		}
	}
	if all, most := c.site.bytes.Add(int64(n)), c.site.most.Load().bytes; most > 0 && all > most {
		c.site.hit(forbidden, fmt.Sprint(all, " bytes"))
	}
	return n, err
}
