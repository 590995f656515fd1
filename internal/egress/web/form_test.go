package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"palyra/internal/core/must"
	"palyra/internal/egress"
)

const (
	urlencoded = "application/x-www-form-urlencoded"
	parts      = "multipart/form-data; boundary=b"
)

// part returns a part of a form with the boundary b.
func part(header, value string) string {
	return "--b\r\n" + header + "\r\n\r\n" + value + "\r\n"
}

var forms = []struct {
	name, kind, body string
	refused          bool
}{
	{"no method", urlencoded, "a=1&b=_method&method=DELETE", false},
	{"an allowed method", urlencoded, "a=1&_method=get", false},
	{"another method", urlencoded, "a=1&_method=delete&b=2", true},
	{"another method, first", urlencoded, "_method=delete", true},
	{"another method, twice", urlencoded, "_method=get&_method=delete", true},
	{"another method, encoded", urlencoded, "a=1;%5f%6dethod=%44ELETE", true},
	{"a long value before it", urlencoded, "a=" + strings.Repeat("x", 3*mostField) + "&_method=delete", true},
	{"a long harmless value", urlencoded, "a=" + strings.Repeat("x", 3*mostField), false},
	{"a long value of it", urlencoded, "_method=" + strings.Repeat("x", 3*mostField), true},
	{"blanks before it", urlencoded, strings.Repeat("+", 3*mostField) + "_method=delete", true},
	{"JSON under the type of curl", urlencoded, `{"text":"` + strings.Repeat("x", 3*mostField) + `"}`, false},
	{"another type", "application/json", `{"_method":"delete"}`, false},
	{"a type with parameters", "Application/X-WWW-Form-Urlencoded; charset=utf-8", "_method=delete", true},
	{"parts", parts, part(`Content-Disposition: form-data; name="a"`, "_method") + "--b--\r\n", false},
	{"a part with the method", parts, part(`Content-Disposition: form-data; name="a"`, "1") + part(`content-disposition: form-data; name="_method"`, "delete") + "--b--\r\n", true},
	{"a part without quotes", parts, part(`Content-Disposition: form-data; name=_method`, "delete") + "--b--\r\n", true},
	{"a part with other quotes", parts, part(`Content-Disposition: form-data; name='_method'`, "delete") + "--b--\r\n", true},
	{"an escaped name", parts, part(`Content-Disposition: form-data; name="\_me\thod"`, "delete") + "--b--\r\n", true},
	{"an encoded name", parts, part(`Content-Disposition: form-data; name*=UTF-8''%5Fmethod`, "delete") + "--b--\r\n", true},
	{"a name in pieces", parts, part(`Content-Disposition: form-data; name*0="_me"; name*1="thod"`, "delete") + "--b--\r\n", true},
	{"a folded header", parts, part("Content-Disposition: form-data;\r\n name=\"_method\"", "delete") + "--b--\r\n", true},
	{"a file of that name", parts, part(`Content-Disposition: form-data; name="f"; filename="_method"`, "x") + "--b--\r\n", false},
	{"a large file", parts, part(`Content-Disposition: form-data; name="f"; filename="x"`, strings.Repeat("x", 1<<20)) + "--b--\r\n", false},
	{"a large file before it", parts, part(`Content-Disposition: form-data; name="f"; filename="x"`, strings.Repeat("x", 1<<20)) +
		part(`Content-Disposition: form-data; name="_method"`, "delete") + "--b--\r\n", true},
	{"lines end in CR only", parts, strings.ReplaceAll(part(`Content-Disposition: form-data; name="_method"`, "delete"), "\r\n", "\r"), true},
}

// TestForms: a host receives no form that names a method outside of the rules.
func TestForms(t *testing.T) {
	t.Parallel()
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			t.Parallel()
			for _, restricted := range []bool{true, false} { // the control has no rules for methods
				w := newWorld(t, "example.org:80")
				if restricted {
					w.inspect([]string{"GET", "POST"}, nil)
				} else {
					w.inspect(nil, []string{"/**"})
				}
				received := make(chan string, 1)
				w.host("example.org:80", http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					body, err := io.ReadAll(r.Body)
					received <- fmt.Sprint(string(body), err)
				}))
				c := w.serve()
				go fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", form.kind, len(form.body), form.body)
				res, body := readResponse(t, bufio.NewReader(c), "POST")
				if !form.refused || !restricted {
					if got := <-received; res.StatusCode != http.StatusOK || got != form.body+"<nil>" {
						t.Errorf("restricted %t: %d %q, the host received %d bytes", restricted, res.StatusCode, body, len(got))
					}
					continue
				}
				checkRefusal(t, res, body, egress.ReasonMethod)
				if got := w.refusals(); len(got) != 1 || got[0] != "example.org:80 method" {
					t.Errorf("the record is %q", got)
				}
				select {
				case got := <-received:
					if strings.HasSuffix(got, "<nil>") || strings.Contains(strings.ToLower(got), "delete") {
						t.Errorf("the host received a whole form, or the method: %q", got)
					}
				default: // the request broke off before the host's handler
				}
			}
		})
	}
}

// TestCompressedForm: a form that cannot be judged is refused.
func TestCompressedForm(t *testing.T) {
	t.Parallel()
	for _, methods := range [][]string{{"GET", "POST"}, nil} { // the control has no rules for methods
		w := newWorld(t, "example.org:80")
		w.inspect(methods, []string{"/**"})
		host := w.host("example.org:80", nil)
		c := w.serve()
		res, body := say(t, c, bufio.NewReader(c), "POST / HTTP/1.1\r\nHost: example.org\r\nContent-Type: "+urlencoded+"\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx", "POST")
		if methods != nil {
			checkRefusal(t, res, body, egress.ReasonMethod)
		}
		if got := len(host.requests()); got == 0 != (methods != nil) {
			t.Errorf("methods %q: the host received %d requests", methods, got)
		}
	}
}

// judged returns the bytes of a form that a host would receive, and whether it was refused. The
// body arrives in the given way.
func judged(t testing.TB, kind, body string, arrives func(io.Reader) io.Reader) (string, bool) {
	t.Helper()
	rules := egress.Inspection{Methods: []string{"GET", "POST"}}
	b := &bridge{client: client{front: Front{
		Inspect: func(egress.Target) (egress.Inspection, bool) { return rules, true },
		Refuse:  func(egress.Target, string) {},
	}}}
	r := &http.Request{Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(arrives(strings.NewReader(body)))}
	must.Do(t, b.guardForm(r, egress.Target{}))
	got, err := io.ReadAll(r.Body)
	var no *refusal
	if err != nil && !errors.As(err, &no) {
		t.Fatalf("reading the form: %v", err)
	}
	return string(got), no != nil
}

// FuzzForm: the answer does not depend on how a form arrives. An accepted form passes unchanged,
// and no parser finds another method in the bytes that are passed on.
func FuzzForm(f *testing.F) {
	for _, form := range forms {
		if len(form.body) < 1<<10 {
			f.Add(form.body, form.kind == parts)
		}
	}
	f.Fuzz(func(t *testing.T, body string, inParts bool) {
		kind := urlencoded
		if inParts {
			kind = parts
		}
		got, no := judged(t, kind, body, func(r io.Reader) io.Reader { return r })
		slow, slowNo := judged(t, kind, body, iotest.OneByteReader)
		if no != slowNo || !no && got != slow {
			t.Fatalf("%q: refused %t, and %t byte by byte", body, no, slowNo)
		}
		if !no && got != body || !strings.HasPrefix(body, got) {
			t.Fatalf("%q is passed on as %q", body, got)
		}
		if inParts {
			reader := multipart.NewReader(bytes.NewReader([]byte(got)), "b")
			for p, err := reader.NextRawPart(); err == nil; p, err = reader.NextRawPart() {
				if strings.EqualFold(p.FormName(), "_method") {
					t.Fatalf("%q has the field %q", got, p.FormName())
				}
			}
			return
		}
		r := must.Get(http.NewRequest(http.MethodPost, "/", strings.NewReader(got)))(t)
		r.Header.Set("Content-Type", kind)
		if r.ParseForm() == nil {
			for _, method := range r.PostForm["_method"] {
				if m := strings.ToUpper(method); m != "GET" && m != "POST" && m != "" {
					t.Fatalf("%q names the method %q", got, method)
				}
			}
		}
	})
}
