//go:build linux

package attack

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
)

// internet gives the scene its site, with no network rules.
func (c *scene) internet() *site {
	if c.site == nil {
		c.site = c.world.newSite(c.t, c.token)
		c.spec.Network = &egress.Reach{}
		c.attacker(places.talker)
	}
	return c.site
}

// allow adds rules for what the program may reach; deny adds rules that forbid.
func (c *scene) allow(rules ...string) {
	c.t.Helper()
	c.internet()
	list, err := egress.ParseRules(c.fillAll(rules))
	c.must(err)
	c.spec.Network.Rules.Allow = append(c.spec.Network.Rules.Allow, list...)
}

func (c *scene) deny(rules ...string) {
	c.t.Helper()
	c.internet()
	list, err := egress.ParseRules(c.fillAll(rules))
	c.must(err)
	c.spec.Network.Rules.Deny = append(c.spec.Network.Rules.Deny, list...)
}

// inspect enables TLS inspection for good.
func (c *scene) inspect(methods, paths []string) {
	c.t.Helper()
	c.allow("{good}:443")
	rule, err := egress.ParseRule(c.fill("{good}:443"))
	c.must(err)
	c.spec.Network.Inspect = []egress.Inspection{{Host: rule, Methods: methods, Paths: paths}}
}

// bind gives the program a placeholder, and the places the secret's value.
func (c *scene) bind(header string, places ...string) {
	c.t.Helper()
	c.allow(places...)
	rules, err := egress.ParseRules(c.fillAll(places))
	c.must(err)
	c.spec.Output = func(_ string, chunk []byte) { c.shown = append(c.shown, chunk...) }
	c.spec.Network.Secrets = []egress.Secret{{Name: "token", Env: "TOKEN", Header: header, Hosts: rules, Source: c.site}}
}

// Secret returns the secret of a site.
func (s *site) Secret(context.Context, string) ([]byte, error) { return []byte(s.secret), s.broken }

// leaks reports whether the report or the displayed output of a run contains the secret in any
// form.
func (c *scene) leaks(r sandbox.Report) bool {
	text, err := json.Marshal(r)
	c.must(err)
	for _, part := range [][]byte{text, slices.Concat(r.Stdout.Head, r.Stdout.Tail), slices.Concat(r.Stderr.Head, r.Stderr.Tail), c.shown} {
		if holdsSecret(part, c.site.secret) {
			return true
		}
	}
	return false
}

func holdsSecret(text []byte, value string) bool {
	forms := []string{value, hex.EncodeToString([]byte(value))}
	for skip := range 3 { // the base64 form depends on the offset
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", skip) + value))
		forms = append(forms, text[4:len(text)-4])
	}
	return slices.ContainsFunc(forms, func(f string) bool { return bytes.Contains(text, []byte(f)) })
}

// braces matches words that depend on the scene: {good} and {evil} are names, {good4} and
// {evil6} are addresses, and {@evil:443} is a dial address.
var braces = regexp.MustCompile(`\{@?[a-z0-9/-]+(:(\d+|\{port\}))?\}`)

func (c *scene) fillAll(words []string) []string {
	var list []string
	for _, w := range words {
		list = append(list, c.fill(w))
	}
	return list
}

func (c *scene) fill(text string) string {
	return braces.ReplaceAllStringFunc(text, func(word string) string {
		word = word[1 : len(word)-1]
		if w, ok := c.words[word]; ok {
			return w
		}
		if word == "token" {
			return c.token
		}
		c.internet()
		if place, ok := strings.CutPrefix(word, "@"); ok {
			return c.place(strings.Replace(place, "{port}", strconv.Itoa(int(c.site.port)), 1))
		}
		if w, ok := c.known()[word]; ok {
			return w
		}
		c.t.Fatalf("no such word: {%s}", word)
		return ""
	})
}

// known returns the words of a site.
func (c *scene) known() map[string]string {
	s := c.site
	known := map[string]string{
		"zone": s.zone, "site": strings.TrimSuffix(s.zone, ".test"), "good": "good." + s.zone, "evil": "evil." + s.zone, "evil/": "evil/" + strings.ReplaceAll(s.zone, ".", "/"),
		"good/": "good/" + strings.ReplaceAll(s.zone, ".", "/"), "zone/": strings.ReplaceAll(s.zone, ".", "/"),
		"good4": s.address(goodHost).String(), "evil4": s.address(evilHost).String(), "own": s.address(own).String(),
		"good6": s.address6(goodHost).String(), "evil6": s.address6(evilHost).String(),
		"port": strconv.Itoa(int(s.port)), "service": strconv.Itoa(int(s.service)),
		"proxy": "127.0.0.1:3128", "socks": "127.0.0.1:1080", "dns": "127.0.0.1:53", "resolver": otherResolver,
		"quic": "good." + s.zone + ":443", "quic4": s.address(evilHost).String() + ":443",
	}
	if c.direct {
		known["proxy"], known["socks"] = c.world.careless.http.Addr().String(), c.world.careless.socks.Addr().String()
		known["dns"], known["resolver"] = c.world.names.Address(), c.world.names.Address()
		known["quic"] = fmt.Sprint("127.0.0.1:", s.service)
		known["quic4"] = known["quic"]
	}
	return known
}

// place returns the dial address for a host and port of a site.
func (c *scene) place(text string) string {
	name, port, _ := strings.Cut(text, ":")
	number, err := strconv.ParseUint(port, 10, 16)
	c.must(err)
	host := name + "." + c.site.zone
	if addr, err := netip.ParseAddr(c.known()[name]); err == nil {
		host = addr.String()
	}
	if !c.direct {
		return net.JoinHostPort(host, port)
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		addr = c.site.answers[name][0][0]
	}
	to, ok := c.site.route(netip.AddrPortFrom(addr, uint16(number)))
	if !ok {
		c.t.Fatalf("there is no server at %s", text)
	}
	return to
}

// listening matches the output of a probe that listens.
var listening = regexp.MustCompile(`listening (\d+)\n`)

// once calls do, once, with the port on which a program reports that it listens.
func once(do func(port string)) func(stream string, chunk []byte) {
	var only sync.Once
	return func(_ string, chunk []byte) {
		if m := listening.FindSubmatch(chunk); m != nil {
			only.Do(func() { do(string(m[1])) })
		}
	}
}

// neighbour starts the program in another sandbox and waits until it listens, on the port
// {neighbour}. The returned function stops it.
func (b *boundary) neighbour(c *scene, r row, without []string) (end func()) {
	c.t.Helper()
	other := c.spec
	mine := c.spec.Network
	c.spec.Network = &egress.Reach{}
	c.allow(r.besideAllow...)
	other.Network, c.spec.Network = c.spec.Network, mine
	other.Argv, other.Owner = append([]string{c.attacks}, c.fillAll(r.beside)...), "neighbour"
	ctx, cancel := context.WithCancel(c.t.Context())
	port, ended := make(chan string, 1), make(chan struct{})
	other.Output = once(func(p string) { port <- p })
	var failed error
	go func() {
		defer close(ended)
		report, err := b.runner(c.t, without).Run(ctx, other)
		if report.Layer != nil {
			err = errors.Join(err, report.Layer.Close())
		}
		failed = errors.Join(err, fmt.Errorf("%s%s", report.Stdout.Head, report.Stderr.Head))
	}()
	select {
	case p := <-port:
		c.words = map[string]string{"neighbour": p}
	case <-ended:
		cancel()
		c.t.Fatalf("the neighbour did not start: %v", failed)
	}
	return func() {
		cancel()
		<-ended
	}
}

// bash runs a bash script instead of the probe.
func (c *scene) bash(script string) { c.program("bash", "-c", c.fill(script)) }

// ownAddresses returns the global addresses of this machine, without loopback.
func ownAddresses() map[string]string {
	list, _ := net.InterfaceAddrs()
	found := map[string]string{}
	for _, a := range list {
		prefix, err := netip.ParsePrefix(a.String())
		if err != nil || !prefix.Addr().IsGlobalUnicast() {
			continue
		}
		if prefix.Addr().Is4() {
			found["IPv4"] = prefix.Addr().String()
		} else {
			found["IPv6"] = prefix.Addr().String()
		}
	}
	return found
}
