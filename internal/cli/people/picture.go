package people

import (
	"crypto/sha256"
	"strings"

	"rsc.io/qr"

	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/cli/client"
	"palyra/internal/identity/pairing"
)

// linkOf returns the content of the QR code.
func linkOf(g *client.Gateway, address string, p *palyrav1.Pairing, token string) string {
	return pairing.Link{Address: address, CA: sha256.Sum256(g.Root.Raw), Code: p.GetPairingId(), Token: token}.String()
}

// quiet is the light border that QR readers need, in modules.
const quiet = 2

// picture draws a text as a QR code (ISO/IEC 18004) for a terminal: two modules, one above the
// other, are one character. Light modules are drawn, so that it is readable on a dark terminal;
// readers accept either.
func picture(text string) string {
	code, err := qr.Encode(text, qr.L)
	if err != nil {
		return "" // too long for a QR code; the link is printed above
	}
	light := func(x, y int) bool {
		return x < 0 || y < 0 || x >= code.Size || y >= code.Size || !code.Black(x, y)
	}
	var b strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		for x := -quiet; x < code.Size+quiet; x++ {
			switch upper, lower := light(x, y), light(x, y+1); {
			case upper && lower:
				b.WriteRune('█')
			case upper:
				b.WriteRune('▀')
			case lower:
				b.WriteRune('▄')
			default:
				b.WriteByte(' ')
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
