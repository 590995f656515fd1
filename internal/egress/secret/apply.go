package secret

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"palyra/internal/core/reason"
	"palyra/internal/egress"
)

// Use is one secret that a request uses.
type Use struct {
	Secret egress.Secret
	// Header is the header that carries the secret, in canonical form.
	Header string

	// key is the header's name as written in the request.
	key string
	// fill returns the value of the header that holds the secret's value.
	fill func(value string) string
}

// Apply inserts the values into a request to a target, and scans its body. verified means that the
// request is sent by TLS to a server whose certificate was verified for the target. Apply refuses
// placeholders in any other place, and a request whose value is unavailable; r is then unchanged.
// Errors carry reason.EgressDenied; Word returns their reason.
//
// The answer is requested uncompressed and complete, because it could not be scrubbed otherwise.
func (x *Exchange) Apply(ctx context.Context, r *http.Request, t egress.Target, verified bool) error {
	if x.Idle() {
		return nil
	}
	uses, err := x.Find(r, t, verified)
	if err != nil {
		return err
	}
	filled := make([]string, len(uses))
	for i, use := range uses {
		value, err := x.value(ctx, use.Secret)
		if err != nil {
			return err
		}
		filled[i] = use.fill(value)
	}
	for i, use := range uses {
		r.Header[use.key] = []string{filled[i]}
	}
	if x.sentTo(t) && r.Header != nil {
		r.Header.Set("Accept-Encoding", "identity")
		r.Header.Del("Range")
		r.Header.Del("If-Range")
	}
	x.watchBody(r)
	return nil
}

// sentTo reports whether a target may have received a value.
func (x *Exchange) sentTo(t egress.Target) bool {
	for _, s := range x.secrets {
		if s.For(t) {
			return true
		}
	}
	return false
}

// Find returns the secrets used by a request, sorted by header. It refuses the same requests as
// Apply, except for the body and the values, which it does not read.
func (x *Exchange) Find(r *http.Request, t egress.Target, verified bool) ([]Use, error) {
	if x.Idle() {
		return nil, nil
	}
	if err := checkLine(r); err != nil {
		return nil, err
	}
	var uses []Use
	for name, values := range r.Header {
		if Marked(name) {
			return nil, misplaced("the name of a header")
		}
		for _, value := range values {
			if !Marked(value) {
				continue
			}
			use, err := x.use(textproto.CanonicalMIMEHeaderKey(name), value, t, verified)
			if err != nil {
				return nil, err
			}
			if len(values) > 1 {
				return nil, misplaced("a header that is there more than once")
			}
			use.key = name
			uses = append(uses, use)
		}
	}
	slices.SortFunc(uses, func(a, b Use) int { return strings.Compare(a.Header, b.Header) })
	return uses, checkHeader(r.Trailer, "a trailer")
}

// checkLine checks the parts of a request other than header and body.
func checkLine(r *http.Request) error {
	switch {
	case Marked(r.Host) || r.URL != nil && Marked(r.URL.Host):
		return misplaced("the host")
	case r.URL != nil && Marked(r.URL.String()):
		return misplaced("the URL")
	case Marked(r.Method):
		return misplaced("the method")
	}
	return nil
}

func checkHeader(h http.Header, where string) error {
	for name, values := range h {
		if Marked(name) || Marked(strings.Join(values, "\n")) {
			return misplaced(where)
		}
	}
	return nil
}

// use judges the value of one header that holds a placeholder.
func (x *Exchange) use(header, value string, t egress.Target, verified bool) (Use, error) {
	placeholder, fill, ok := parse(value)
	if !ok {
		return Use{}, misplaced("the header " + header + ", which has to hold nothing else")
	}
	s, ok := x.of(placeholder)
	switch {
	case !ok:
		return Use{}, refused(egress.ReasonSecretMisplaced, "the header "+header+" holds a text that looks like a placeholder and is none of this call",
			"Use the placeholders that this call was given, each as it is.")
	case textproto.CanonicalMIMEHeaderKey(s.Header) != header:
		return Use{}, misplaced("the header " + header + "; it belongs into " + s.Header)
	case !s.For(t):
		return Use{}, refused(egress.ReasonSecretMisplaced, "the secret "+s.Name+" is not for "+t.String(), "Send it only to the hosts that it is for.")
	case !verified:
		return Use{}, refused(egress.ReasonSecretUnverified, "the secret "+s.Name+" may travel by verified TLS alone", "Use https.")
	}
	return Use{Secret: s, Header: header, fill: fill}, nil
}

// parse extracts the placeholder from a header value, in the three allowed forms: alone, after a
// scheme name, and as one side of Basic authentication (RFC 7617).
func parse(value string) (placeholder string, fill func(string) string, ok bool) {
	scheme, rest, two := strings.Cut(value, " ")
	switch {
	case !two && strings.HasPrefix(value, marker):
		return value, func(v string) string { return v }, true
	case two && strings.EqualFold(scheme, "basic") && !strings.HasPrefix(rest, marker):
		return parseBasic(scheme, rest)
	case two && strings.Trim(scheme, letters+"-_") == "" && !Marked(scheme) && strings.HasPrefix(rest, marker):
		return rest, func(v string) string { return scheme + " " + v }, true
	}
	return "", nil, false
}

func parseBasic(scheme, text string) (placeholder string, fill func(string) string, ok bool) {
	decoded, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", nil, false
	}
	user, password, _ := strings.Cut(string(decoded), ":")
	join := func(user, password string) string {
		return scheme + " " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	switch {
	case strings.HasPrefix(password, marker) && !Marked(user):
		return password, func(v string) string { return join(user, v) }, true
	case strings.HasPrefix(user, marker) && !Marked(password):
		return user, func(v string) string { return join(v, password) }, true
	}
	return "", nil, false
}

// watchBody searches the body for placeholders while it is sent, and the trailers when it ends.
func (x *Exchange) watchBody(r *http.Request) {
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &body{Reader: &ending{x.Watch(r.Body), func() error { return checkHeader(r.Trailer, "a trailer") }}, Closer: r.Body}
	}
	if again := r.GetBody; again != nil {
		r.GetBody = func() (io.ReadCloser, error) {
			b, err := again()
			if err != nil {
				return nil, err
			}
			return x.Body(b), nil
		}
	}
}

// ending calls a function at the end of a reader.
type ending struct {
	io.Reader
	ask func() error
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		if wrong := e.ask(); wrong != nil {
			return n, wrong
		}
	}
	return n, err
}

// misuse is the error for a placeholder in a place where it is not allowed.
type misuse struct{ word, text string }

func (m misuse) Error() string { return m.text }

// Word returns the reason of package egress that a connection's record contains for an error of
// this package: egress.ReasonSecretMisplaced, egress.ReasonSecretUnverified, or "" for any other
// error.
func Word(err error) string {
	var m misuse
	if errors.As(err, &m) {
		return m.word
	}
	return ""
}

func misplaced(where string) error {
	return refused(egress.ReasonSecretMisplaced, "the placeholder of a secret stands in "+where,
		"Put it into its header alone, or after a scheme such as Bearer, and nowhere else.")
}

func refused(word, text, remedy string) error {
	return reason.Errorf(reason.EgressDenied, "%w", misuse{word, text}).WithRemedy("%s", remedy).WithField("reason", word)
}

// unescaped decodes percent-encoding, including repeated percent-encoding.
func unescaped(s string) string {
	const rounds = 3
	for range rounds {
		if !strings.Contains(s, "%") {
			return s
		}
		s = lenient(s)
	}
	return s
}

// lenient decodes the valid escapes and leaves the others unchanged.
func lenient(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := url.PathUnescape(s[i : i+3]); err == nil {
				b.WriteString(c)
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
