package config

import (
	"net"
	"net/url"
	"strings"
	"time"

	"palyra/internal/core/dnsname"
)

// checkConsole requires TLS, unless the console is only for this machine.
func checkConsole(k *checker, c *Config) {
	if c.Listen.Console != "" {
		checkConsoleListener(k, c)
	}
	if o := c.Console.Origin; o != "" && !consoleOrigin(o, c.Console.TLS()) {
		remedy := "set it to http://localhost:PORT or http://NAME.localhost:PORT, or leave it out; https takes console.certificate_file or console.own_ca"
		if c.Console.TLS() {
			remedy = "set it to https://NAME:PORT, with the name in small letters that is in the certificate"
		}
		k.find("console.origin", "is "+quote(o), remedy)
	}
	between(k, "console.idle", c.Console.Idle, time.Minute, 24*time.Hour)
	between(k, "console.session", c.Console.Session, time.Minute, 7*24*time.Hour)
	files := c.Console.CertificateFile != ""
	switch {
	case files != (c.Console.KeyFile != ""):
		k.find("console.key_file", "is set without console.certificate_file, or console.certificate_file is set without it", "set both, or neither")
	case files && c.Console.OwnCA:
		k.find("console.own_ca", "is true together with console.certificate_file", "have a CA made, or give a certificate")
	}
	for key, path := range map[string]string{"console.certificate_file": c.Console.CertificateFile, "console.key_file": c.Console.KeyFile} {
		if path != "" {
			k.absolute(key, path)
		}
	}
}

func checkConsoleListener(k *checker, c *Config) {
	host, ok := k.address("listen.console", c.Listen.Console)
	if ok && !dnsname.Loopback(host) {
		switch {
		case !c.Console.TLS():
			k.find("listen.console", "is "+quote(c.Listen.Console)+", where sessions would cross the network in plain", "give it a certificate (console.certificate_file and console.key_file, or console.own_ca = true), or listen on 127.0.0.1")
		case !c.Listen.AllowRemote:
			k.find("listen.console", "is "+quote(c.Listen.Console)+", which other machines can reach", "set listen.allow_remote = true, or listen on 127.0.0.1")
		}
	}
	if ok && c.Console.TLS() && c.Console.Origin == "" {
		k.find("console.origin", "is empty, and over TLS browsers reach the console under the name in its certificate", "set it to https://NAME:PORT")
	}
}

// consoleOrigin reports whether the console can have an origin: https with TLS, and otherwise
// an origin that browsers treat as this machine.
func consoleOrigin(text string, tls bool) bool {
	u, err := url.Parse(text)
	if err != nil || u.Scheme+"://"+u.Host != text || text != strings.ToLower(text) {
		return false
	}
	name := u.Hostname()
	if net.ParseIP(name) != nil || !dnsname.Valid(name) {
		return false
	}
	if tls {
		return u.Scheme == "https"
	}
	return u.Scheme == "http" && (name == "localhost" || strings.HasSuffix(name, ".localhost"))
}
