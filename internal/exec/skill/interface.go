package skill

import (
	"net/netip"
	"strings"

	"palyra/internal/exec/wasm/module"
)

// InterfaceVersion is the version of the interface of handles.
var InterfaceVersion = module.Capabilities[strings.LastIndexByte(module.Capabilities, '@')+1:]

// AnyHost asks for every host that the operator's own rules allow.
const AnyHost = "*"

// Wildcards are the hosts that a tool asks for and that are more than one each.
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
