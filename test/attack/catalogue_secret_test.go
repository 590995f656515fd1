//go:build linux

package attack

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"palyra/internal/egress"
)

// carryRows are NET-09: data sent out through an allowed host.
func carryRows() []row {
	const source = "exfiltration through an allowed host"
	const post = `send POST / HTTP/1.1\r\nHost: {good}\r\nContent-Length: 1000000\r\n\r\n`
	limit := func(prepare func(*scene), set func(*scene)) func(*scene) { return all(prepare, set) }
	grant := func(b egress.Budget) func(*scene) { return func(c *scene) { c.spec.Network.Budget = b } }
	plain, inspected := allow("{good}:80", "{good}:443"), func(c *scene) { c.inspect(nil, nil) }
	bytes := func(variant string, prepare func(*scene), steps ...string) row {
		return row{id: "NET-09", variant: variant, source: source, walls: layers(budget), told: "budget_bytes_out", effect: reached,
			prepare: limit(prepare, func(c *scene) {
				c.spec.Network.Budget.BytesOut = 64 << 10
				c.site.most.Store(&limits{bytes: 128 << 10})
			}),
			lift: grant(egress.Budget{BytesOut: 16 << 20}), probe: talk(steps...)}
	}
	var often []string
	for range 10 {
		often = append(often, "tcp {@good:80}", `send POST / HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\nContent-Length: 30000\r\n\r\n`, "flood 30000", "want fine")
	}
	var several, reconnect []string
	for range 6 {
		several = append(several, `send GET / HTTP/1.1\r\nHost: {good}\r\n\r\n`, "want fine")
		reconnect = append(reconnect, "tcp {@good:80}", getGood, "want fine")
	}
	count := func(variant, told string, prepare func(*scene), set func(*scene), lift egress.Budget, steps ...string) row {
		return row{id: "NET-09", variant: variant, source: source, walls: layers(budget), told: told, effect: reached, prepare: limit(prepare, set), lift: grant(lift), probe: talk(steps...)}
	}
	list := []row{
		bytes("bytes in plain HTTP", plain, "tcp {@good:80}", post, "flood 1000000", "want fine"),
		bytes("bytes in TLS", plain, "tcp {@good:443}", "tls {good} http/1.1", post, "flood 1000000", "want fine"),
		bytes("bytes in inspected TLS", inspected, "tcp {@good:443}", "tls {good} http/1.1", post, "flood 1000000", "want fine"),
		bytes("bytes by CONNECT", plain, "tcp {proxy}", `send CONNECT {good}:443 HTTP/1.1\r\nHost: {good}:443\r\n\r\n`, "want  200", "tls {good} http/1.1", post, "flood 1000000", "want fine"),
		bytes("bytes by SOCKS", plain, "tcp {socks}", "socks {good} 80", post, "flood 1000000", "want fine"),
		bytes("bytes of another protocol", allow("{good}:{port}"), "tcp {@good:{port}}", "flood 1000000", `send \r\n\r\n\r\n`, getGood, "want fine"),
		bytes("bytes over many connections", plain, often...),
		count("requests on one connection", "budget_requests", plain, func(c *scene) { c.spec.Network.Budget.Requests = 3; c.site.most.Store(&limits{requests: 3}) },
			egress.Budget{Requests: 100}, append([]string{"tcp {@good:80}"}, several...)...),
		count("requests of an inspected host", "budget_requests", inspected, func(c *scene) { c.spec.Network.Budget.Requests = 3; c.site.most.Store(&limits{requests: 3}) },
			egress.Budget{Requests: 100}, append([]string{"tcp {@good:443}", "tls {good} http/1.1"}, several...)...),
		count("streams of an inspected host", "budget_requests", inspected, func(c *scene) { c.spec.Network.Budget.Requests = 3; c.site.most.Store(&limits{requests: 3}) },
			egress.Budget{Requests: 100}, "tcp {@good:443}", "tls {good} h2", "h2 :authority={good}", "h2 :authority={good}", "h2 :authority={good}", "h2 :authority={good}", "h2 :authority={good}",
			"want fine", "want fine", "want fine", "want fine", "want fine"),
		count("connections", "budget_connections", plain, func(c *scene) { c.spec.Network.Budget.Connections = 3; c.site.most.Store(&limits{connections: 3}) },
			egress.Budget{Connections: 100}, reconnect...),
		count("connections at one time", "budget_concurrent", plain, func(c *scene) { c.spec.Network.Budget.Concurrent = 3; c.site.most.Store(&limits{concurrent: 3}) },
			egress.Budget{Concurrent: 100}, `many 6 {@good:80} GET / HTTP/1.1\r\nHost: {good}\r\n\r\n`),
		count("time", "budget_time", plain, func(c *scene) {
			c.spec.Network.Budget.Time = time.Second
			c.site.most.Store(&limits{requests: 1})
		},
			egress.Budget{Time: time.Minute}, "tcp {@good:80}", several[0], several[1], "pause 3s", several[2], several[3]),
	}
	looked := func(variant, told string, methods, paths []string, steps ...string) {
		list = append(list, row{id: "NET-09", variant: variant, source: source, walls: layers(requests), told: told, prepare: func(c *scene) { c.inspect(methods, paths) },
			lift: func(c *scene) { c.spec.Network.Inspect[0].Methods, c.spec.Network.Inspect[0].Paths = nil, nil }, probe: talk(append([]string{"tcp {@good:443}"}, steps...)...)})
	}
	reading := []string{"GET", "HEAD"}
	looked("method", "method", reading, nil, "tls {good} http/1.1", `send DELETE /x HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")
	looked("method on a stream", "method", reading, nil, "tls {good} h2", "h2 :method=DELETE :authority={good}", "want")
	looked("method of a second request", "method", reading, nil, "tls {good} http/1.1", several[0], several[1], `send DELETE /x HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")
	for _, header := range []string{"X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"} {
		looked("method by "+header, "method", []string{"POST"}, nil, "tls {good} http/1.1", `send POST /x HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\nContent-Length: 0\r\n`+header+`: DELETE\r\n\r\n`, "want")
	}
	for _, header := range []string{"X-Original-URL", "X-Rewrite-URL"} {
		looked("path by "+header, "path", nil, []string{"/pub/**"}, "tls {good} http/1.1", `send GET /pub/x HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n`+header+`: /forbidden\r\n\r\n`, "want")
	}
	looked("path on a stream", "path", nil, []string{"/pub/**"}, "tls {good} h2", "h2 :path=/forbidden :authority={good}", "want")
	for variant, target := range map[string]string{
		"path": "/forbidden", "path with dots": "/pub/../forbidden", "path with encoded dots": "/pub/%2e%2e/forbidden", "path with an encoded slash": "/pub/..%2fforbidden",
		"path with a backslash": `/pub/..\\forbidden`, "path with an encoded backslash": "/pub/..%5cforbidden", "path with two slashes": "//forbidden",
		"path encoded twice": "/pub/%252e%252e/forbidden", "path with one dot": "/pub/./../forbidden", "path and query": "/forbidden?/pub/x", "path and semicolon": "/forbidden;/pub/x",
		"absolute path": "https://{good}/forbidden",
	} {
		looked(variant, "path bad_http host_mismatch", nil, []string{"/pub/**"}, "tls {good} http/1.1", `send GET `+target+` HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")
	}
	return append(list, row{id: "NET-09", variant: "path and fragment", source: source, walls: layers(requests, framing), told: "path bad_http", bare: true,
		prepare: func(c *scene) { c.inspect(nil, []string{"/pub/**"}) },
		probe:   talk("tcp {@good:443}", "tls {good} http/1.1", `send GET /forbidden#/pub/x HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")})
}

// bearer is a request with the secret in its proper header.
const bearer = `send GET /ok HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`

// bound prepares a scene whose secret is bound to the host good only.
func bound(c *scene) { c.bind("Authorization", "{good}:443") }

// secretRows are SEC-01 to SEC-04: the value of a secret in the wrong place.
func secretRows() []row {
	return append(append(append(hiddenRows(), misplacedRows()...), echoRows()...), fakeRows()...)
}

// hiddenRows are SEC-01: the value is neither in the sandbox nor in the report of the run,
// although requests carry it.
func hiddenRows() []row {
	const source = "secrets in plain sight"
	use := []string{"tcp {@good:443}", "tls {good} http/1.1", bearer, "want fine"}
	hunt := func(variant, where string, lift func(*scene)) row {
		return row{id: "SEC-01", variant: variant, source: source, walls: layers("placeholders"), prepare: bound, lift: lift, uses: true,
			probe: append([]string{"hunt", where, "{token}"}, use...)}
	}
	variable := func(c *scene) { c.spec.Env = append(c.spec.Env, "REAL="+c.site.secret) }
	say := func(variant, how string) row {
		return row{id: "SEC-01", variant: variant, source: source, walls: layers(scrubbing), prepare: bound, effect: leaked, uses: true,
			lift: func(c *scene) { c.spec.Network.Secrets = nil }, probe: append([]string{"say", how, "{token}"}, use...)}
	}
	return []row{
		hunt("environment", "environ", variable),
		hunt("arguments", "environ", func(c *scene) { c.args = []string{"note " + c.site.secret} }),
		hunt("standard input and descriptors", "descriptors", func(c *scene) { c.spec.Stdin = []byte(c.site.secret) }),
		hunt("/proc", "proc", variable),
		hunt("memory of another process", "memory", variable),
		hunt("files", "files", func(c *scene) {
			c.must(os.WriteFile(filepath.Join(c.workspace, "secret"), []byte(c.site.secret), 0o644))
		}),
		say("standard output", "out-plain"), say("standard error", "error-plain"), say("output in base64", "out-base64"),
		say("output in pieces", "out-pieces"), say("output, far from its start", "out-far"),
		{id: "SEC-01", variant: "error text", source: source, walls: layers("placeholders"), bare: true,
			prepare: func(c *scene) { bound(c); c.site.broken = errors.New("the vault cannot give out " + c.site.secret) },
			probe:   talk("tcp {@good:443}", "tls {good} http/1.1", strings.Replace(bearer, "/ok", "/echo?as=error", 1), "secret {token}")},
		{id: "SEC-01", variant: "journal, tape and attestation", source: source},
	}
}

// misplacedRows are SEC-02: the value and the placeholder reach only the secret's host and
// header.
func misplacedRows() []row {
	const source = "OpenSandbox#955"
	strict := all(bound, alarm(theSecret, placeholder))
	var list []row
	add := func(variant, told string, prepare func(*scene), steps ...string) {
		list = append(list, row{id: "SEC-02", variant: variant, source: source, walls: layers(wherever), told: told, prepare: prepare, bare: true, effect: reached, probe: talk(steps...)})
	}
	tls := func(steps ...string) []string {
		return append([]string{"tcp {@good:443}", "tls {good} http/1.1"}, steps...)
	}
	h2 := func(fields string) []string {
		return []string{"tcp {@good:443}", "tls {good} h2", "h2 :authority={good} " + fields, "want fine"}
	}
	const head = ` HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n`
	const misplaced = "secret_misplaced"
	add("in the query", misplaced, strict, tls(`send GET /?token=${TOKEN}`+head+`\r\n`, "want fine")...)
	add("in the path", misplaced, strict, tls(`send GET /${TOKEN}/x`+head+`\r\n`, "want fine")...)
	add("in another header", misplaced, strict, tls(`send GET /`+head+`X-Token: ${TOKEN}\r\n\r\n`, "want fine")...)
	add("in a cookie", misplaced, strict, tls(`send GET /`+head+`Cookie: a=b; t=${TOKEN}\r\n\r\n`, "want fine")...)
	add("in the name of a header", misplaced, strict, tls(`send GET /`+head+`X-${TOKEN}: x\r\n\r\n`, "want fine")...)
	add("in the body", misplaced, strict, tls(`send POST /`+head+`Content-Length: 300\r\n\r\ntoken=${TOKEN}`, "flood 300", "want fine")...)
	add("in a chunk", misplaced, strict, tls(`send POST /`+head+`Transfer-Encoding: chunked\r\n\r\n80\r\n${TOKEN}`, "flood 300", "want fine")...)
	add("in a trailer", misplaced, strict, tls(`send POST /`+head+`Transfer-Encoding: chunked\r\nTrailer: X-Token\r\n\r\n0\r\nX-Token: ${TOKEN}\r\n\r\n`, "want fine")...)
	add("in the declared header and the query", misplaced, strict, tls(`send GET /?t=${TOKEN}`+head+`Authorization: Bearer ${TOKEN}\r\n\r\n`, "want fine")...)
	add("in the query of a stream", misplaced, strict, h2(":path=/?token=${TOKEN}")...)
	add("in another header of a stream", misplaced, strict, h2("x-token=${TOKEN}")...)
	add("in the method", "secret_misplaced method bad_http", strict, tls(`send ${TOKEN} /`+head+`\r\n`, "want fine")...)
	const plain = ` HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n`
	add("over plain HTTP", "secret_unverified secret_misplaced", all(strict, allow("{good}:80")), "tcp {@good:80}", `send GET /`+plain+`Authorization: Bearer ${TOKEN}\r\n\r\n`, "want fine")
	everywhere := all(func(c *scene) { c.bind("Authorization", "{good}:443", "{good}:80") }, alarm(theSecret, placeholder))
	add("over plain HTTP, where the secret is for", "secret_unverified", everywhere, "tcp {@good:80}", `send GET /`+plain+`Authorization: Bearer ${TOKEN}\r\n\r\n`, "want fine")
	add("over plain HTTP by the proxy", "secret_unverified secret_misplaced", all(strict, allow("{good}:80")), "tcp {proxy}",
		`send GET http://{good}/`+plain+`Authorization: Bearer ${TOKEN}\r\n\r\n`, "want fine")
	add("over plain HTTP, body", misplaced+" secret_unverified", all(strict, allow("{good}:80")), "tcp {@good:80}", `send POST /`+plain+`Content-Length: 300\r\n\r\n${TOKEN}`, "flood 300", "want fine")
	add("in another protocol", misplaced+" secret_unverified", all(strict, allow("{good}:{port}")), "tcp {@good:{port}}", `send x ${TOKEN}\r\n\r\n`, getGood, "want fine")
	add("in another protocol, in pieces", misplaced+" secret_unverified", all(strict, allow("{good}:{port}")), "tcp {@good:{port}}", `send x `, "drip ${TOKEN}", `send \r\n\r\n`, getGood, "want fine")
	other := all(strict, names("other", "{good4}"), allow("other.{zone}:80", "other.{zone}:443"))
	add("to another host, plain HTTP", "secret_unverified secret_misplaced", other, "tcp {@other:80}", `send GET / HTTP/1.1\r\nHost: other.{zone}\r\nConnection: close\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`, "want fine")
	inspectOther := func(c *scene) {
		rule, err := egress.ParseRule(c.fill("other.{zone}:443"))
		c.must(err)
		c.spec.Network.Inspect = append(c.spec.Network.Inspect, egress.Inspection{Host: rule})
	}
	return append(list,
		row{id: "SEC-02", variant: "to another inspected host", source: source, walls: layers(wherever), told: "secret_misplaced", effect: reached, prepare: all(other, inspectOther),
			lift: func(c *scene) {
				s := &c.spec.Network.Secrets[0]
				s.Hosts = append(s.Hosts, c.spec.Network.Inspect[0].Host)
			},
			probe: talk("tcp {@other:443}", "tls other.{zone} http/1.1", `send GET / HTTP/1.1\r\nHost: other.{zone}\r\nConnection: close\r\nAuthorization: Bearer ${TOKEN}\r\n\r\n`, "want fine")},
		row{id: "SEC-02", variant: "to another header's host", source: source, walls: layers(wherever), told: "secret_misplaced", effect: reached, prepare: strict,
			lift: func(c *scene) { c.spec.Network.Secrets[0].Header = "X-Token" }, probe: talk(tls(`send GET /`+head+`X-Token: ${TOKEN}\r\n\r\n`, "want fine")...)},
		row{id: "SEC-02", variant: "to a server that cannot be verified", source: source, walls: layers(wherever), told: "bad_tls", effect: reached,
			prepare: all(strict, func(c *scene) { c.site.stranger.Store(true) }), lift: func(c *scene) { c.site.stranger.Store(false) }, probe: talk(tls(bearer, "want fine")...)})
}

// echoRows are SEC-03: a server that returns the value.
func echoRows() []row {
	const source = "responses that echo the secret"
	var list []row
	for _, form := range []struct{ variant, as string }{
		{"header", "header"}, {"body", "body"}, {"body with a length", "length"}, {"body in chunks of a byte", "chunks"}, {"body, packed with gzip", "gzip"},
		{"body in base64", "base64"}, {"body in hexadecimal", "hex"}, {"far in a body", "far"}, {"cookie", "cookie"}, {"redirect", "location"}, {"trailer", "trailer"},
		{"early hints", "early"}, {"error", "error"},
	} {
		list = append(list, row{id: "SEC-03", variant: form.variant, source: source, walls: layers(scrubbing), prepare: bound, bare: true, uses: true,
			probe: talk("tcp {@good:443}", "tls {good} http/1.1", strings.Replace(bearer, "/ok", "/echo?as="+form.as, 1), "secret {token}")})
	}
	list = append(list, row{id: "SEC-03", variant: "stored by the host, read in another run", source: source, walls: layers(scrubbing), prepare: bound, bare: true,
		probe: talk("tcp {@good:443}", "tls {good} http/1.1", `send GET /stored HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "secret {token}")})
	list = append(list, row{id: "SEC-03", variant: "prefix told by what is held back", source: source, walls: layers(scrubbing), bare: true, uses: true,
		prepare: func(c *scene) { bound(c); c.site.leaky.Store(c.direct) },
		probe:   append([]string{"oracle", "{token}", "{@good:443}", "{good}"}, "tcp {@good:443}", "tls {good} http/1.1", bearer, "want fine")})
	return append(list, row{id: "SEC-03", variant: "body of a stream", source: source, walls: layers(scrubbing), prepare: bound, bare: true, uses: true,
		probe: talk("tcp {@good:443}", "tls {good} h2", "h2 :authority={good} :path=/echo?as=body authorization=Bearer_${TOKEN}", "secret {token}")})
}

// fakeRows are SEC-04: tokens that only look like the placeholder. The gateway does not replace
// such a token by the secret.
func fakeRows() []row {
	var list []row
	for _, form := range []struct{ variant, fake string }{
		{"of another run", "palyra-sec-0123456789abcdef-token"}, {"without a run", "palyra-sec-token"}, {"of another secret", "palyra-sec-0123456789abcdef-other"},
		{"a longer one", "${TOKEN}x"}, {"something before it", "x${TOKEN}"}, {"a longer name", "${TOKEN}-more"}, {"twice", "${TOKEN}${TOKEN}"},
		{"nothing but the prefix", "palyra-sec-"}, {"a token of the server's own", "sk-live-0123456789"},
	} {
		list = append(list, row{id: "SEC-04", variant: form.variant, source: "docker/sbx#8", walls: layers("exact placeholders"), effect: reached,
			prepare: func(c *scene) { bound(c); c.site.alarm(theSecret); c.words = map[string]string{"fake": form.fake} },
			lift:    func(c *scene) { c.words["fake"] = "${TOKEN}" },
			probe:   talk("tcp {@good:443}", "tls {good} http/1.1", strings.Replace(bearer, "${TOKEN}", "{fake}", 1), "want HTTP")})
	}
	return list
}
