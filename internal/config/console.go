package config

import (
	"net"
	"net/url"
	"strings"
	"time"

	"palyra/internal/dnsname"
)

// console is plain HTTP, and so for this machine alone.
func (k *checker) console(c *Config) {
	if c.Listen.Console != "" {
		if host, ok := k.address("listen.console", c.Listen.Console); ok && !dnsname.Loopback(host) {
			k.find("listen.console", "is "+quote(c.Listen.Console)+", where sessions would cross the network in plain", "listen on 127.0.0.1")
		}
	}
	if o := c.Console.Origin; o != "" && !consoleOrigin(o) {
		k.find("console.origin", "is "+quote(o), "set it to http://localhost:PORT or http://NAME.localhost:PORT, or leave it out")
	}
	between(k, "console.idle", c.Console.Idle, time.Minute, 24*time.Hour)
	between(k, "console.session", c.Console.Session, time.Minute, 7*24*time.Hour)
}

// consoleOrigin reports whether browsers take an origin for one of this machine.
func consoleOrigin(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Scheme+"://"+u.Host != text || text != strings.ToLower(text) {
		return false
	}
	name := u.Hostname()
	return net.ParseIP(name) == nil && dnsname.Valid(name) && (name == "localhost" || strings.HasSuffix(name, ".localhost"))
}
