package egress

import (
	"net/netip"
	"testing"
)

// TestEmbeddedAddresses: an IPv4 address inside an IPv6 address is judged, wherever the form
// contains it.
func TestEmbeddedAddresses(t *testing.T) {
	t.Parallel()
	for text, inner := range map[string]string{
		"64:ff9b::a9fe:a9fe":                   "169.254.169.254", // NAT64
		"64:ff9b:1::a9fe:a9fe":                 "169.254.169.254", // NAT64 of a site
		"2002:a9fe:a9fe::1":                    "169.254.169.254", // 6to4
		"2001:0:4136:e378:8000:63bf:5601:5601": "169.254.169.254", // Teredo: the client's address is inverted
		"2001:0:4136:e378:8000:63bf:80ff:fffe": "127.0.0.1",
		"2600::5efe:a9fe:a9fe":                 "169.254.169.254", // ISATAP
		"2600::200:5efe:a00:1":                 "10.0.0.1",
		"fd12::5efe:a9fe:a9fe":                 "169.254.169.254",
		"::a9fe:a9fe":                          "169.254.169.254", // compatible
		"::ffff:0:a9fe:a9fe":                   "169.254.169.254", // translated
		"::ffff:a9fe:a9fe":                     "",                // mapped: the address itself after Unmap
		"::1":                                  "", "::": "", "2606:4700::1111": "", "2001:200::1": "", "169.254.169.254": "",
	} {
		got, ok := embedded(netip.MustParseAddr(text))
		if ok != (inner != "") || ok && got.String() != inner {
			t.Errorf("%s: got %v, want %q", text, got, inner)
		}
	}
}

// TestStricterOfTwoAddressesCounts: a rule for the outer address does not unlock an inner
// address that no rule unlocks.
func TestStricterOfTwoAddressesCounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Class{
		"2001:0:4136:e378:8000:63bf:5601:5601": Metadata, // Teredo, itself reserved
		"2001:0:4136:e378:8000:63bf:f7f7:f7f7": Reserved, // Teredo around 8.8.8.8
		"64:ff9b:1::a9fe:a9fe":                 Metadata, // around a private block
		"64:ff9b:1::808:808":                   Private,
		"fd12::5efe:a9fe:a9fe":                 Metadata,
		"fd12::5efe:a00:1":                     Private,
		"2600::5efe:a00:1":                     Private,
		"2600::5efe:808:808":                   Public,
		"64:ff9b::808:808":                     Public,
		"64:ff9b::7f00:1":                      Loopback,
		"2002:e000:1::":                        Multicast,
		"::808:808":                            Reserved, // the compatible form is not routed
		"::ffff:0:808:808":                     Reserved,
		"::ffff:0:a9fe:a9fe":                   Metadata,
		"::a9fe:a9fe":                          Metadata,
		"4000::5efe:808:808":                   Reserved,
		"::ffff:8.8.8.8":                       Public,
		"fe80::5efe:808:808":                   LinkLocal,
	} {
		if got, _ := Classify(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	rules := Rules{Allow: mustRules(t, "[2001::/32]:80", "[fd00::/8]:80", "[64:ff9b:1::/48]:80")}
	for text, refused := range map[string]bool{
		"2001:0:4136:e378:8000:63bf:5601:5601": true, "fd12::5efe:a9fe:a9fe": true, "64:ff9b:1::a9fe:a9fe": true,
		"2001:0:4136:e378:8000:63bf:f7f7:f7f7": false, "fd12::5efe:a00:1": false, "64:ff9b:1::808:808": false,
	} {
		if o, ok := rules.object(netip.MustParseAddr(text), 80, nil); ok != refused {
			t.Errorf("%s: refused %t (%s)", text, ok, o.text)
		}
	}
}

// TestDeniedAddressInAnotherForm: an address that is denied in its IPv4 form, or is the
// machine's own, stays unreachable in an IPv6 form that contains it.
func TestDeniedAddressInAnotherForm(t *testing.T) {
	t.Parallel()
	rules := Rules{Allow: mustRules(t, "*.example:80", "0.0.0.0/0:80"), Deny: mustRules(t, "8.8.8.0/24")}
	own := []netip.Addr{netip.MustParseAddr("1.0.0.1")}
	for text, why := range map[string]string{
		"8.8.8.8": ReasonDeniedRule, "64:ff9b::808:808": ReasonDeniedRule, "2002:808:808::1": ReasonDeniedRule, "2600::5efe:808:808": ReasonDeniedRule,
		"1.0.0.1": ReasonAddressNotPublic, "64:ff9b::100:1": ReasonAddressNotPublic, "2002:100:1::": ReasonAddressNotPublic,
		"9.9.9.9": "", "64:ff9b::909:909": "", "2002:909:909::1": "",
	} {
		o, _ := rules.object(netip.MustParseAddr(text), 80, own)
		if o.why != why {
			t.Errorf("%s: %q, want %q", text, o.why, why)
		}
	}
}
