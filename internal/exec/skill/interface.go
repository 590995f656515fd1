package skill

import (
	"net/netip"
	"strings"

	"palyra/internal/exec/wasm/module"
)

// InterfaceVersion is the version of the handle interface.
var InterfaceVersion = module.Capabilities[strings.LastIndexByte(module.Capabilities, '@')+1:]

// AnyHost requests every host that the operator's rules allow.
const AnyHost = "*"

// Wildcards returns the requested rules that match more than one host.
func (c Capabilities) Wildcards() []string {
	var out []string
	for _, host := range c.HTTP {
		prefix, err := netip.ParsePrefix(host)
		if strings.Contains(host, "*") || err == nil && !prefix.IsSingleIP() || err != nil && strings.Contains(host, "/") {
			out = append(out, host)
		}
	}
	return out
}
