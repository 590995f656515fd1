package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"palyra/internal/core/statedir"
	"palyra/internal/surface/console"
	"palyra/internal/surface/console/certificate"
)

// consoleOrigin reports the console's address for browsers, and whether that changed: passkeys
// belong to its name.
func (p people) consoleOrigin(ctx context.Context) finding {
	if p.Settings.Listen.Console == "" {
		return skipped("switched off")
	}
	if c := p.Settings.Console; c.CertificateFile != "" {
		if _, err := certificate.Files(c.CertificateFile, c.KeyFile, nil); err != nil {
			return broken(err)
		}
	}
	kept, err := console.ReadKept(statedir.Console(p.Settings.StateDir))
	if errors.Is(err, fs.ErrNotExist) {
		return skipped("palyrad has not served the console yet")
	}
	if err != nil {
		return broken(err)
	}
	was, err := console.ParseOrigin(kept.Origin)
	if err != nil {
		return broken(err)
	}
	next := was
	if p.Settings.Console.Origin != "" {
		if next, err = console.ParseOrigin(p.Settings.Console.Origin); err != nil {
			return broken(err)
		}
	} else if was.Scheme == "https" || was.Name() != kept.Name+".localhost" {
		if next, err = console.ParseOrigin("http://" + kept.Name + ".localhost"); err != nil {
			return broken(err)
		}
	}
	if next.Name() != was.Name() {
		return doubtful("with the next start the console is at "+next.Name()+" in place of "+was.Name()+": "+p.lostAt(ctx, next.Name()), "Set console.origin back to "+kept.Origin+", or enroll passkeys again.")
	}
	if before, err := console.ParseOrigin(kept.Was); err == nil && before.Name() != was.Name() {
		return doubtful(kept.Origin+"; it was at "+kept.Was+" before: "+p.lostAt(ctx, was.Name()), "Set console.origin back to "+kept.Was+", or enroll passkeys again.")
	}
	return fine(kept.Origin)
}

// mostNamed is how many lost passkeys are named.
const mostNamed = 8

// lostAt names the passkeys that no browser offers to a console of that name.
func (p people) lostAt(ctx context.Context, name string) string {
	all, err := p.storedPasskeys(ctx)
	if err != nil {
		return "passkeys that were enrolled there are lost"
	}
	var lost []string
	for _, k := range all {
		if k.LostAt(name) {
			lost = append(lost, fmt.Sprintf("%q of %s", k.Name, k.Member))
		}
	}
	switch n := len(lost); {
	case n == 0:
		return "no passkey that counts is lost by it"
	case n > mostNamed:
		return fmt.Sprintf("passkeys that were enrolled there are lost: %s, and %d more", strings.Join(lost[:mostNamed], ", "), n-mostNamed)
	default:
		return "passkeys that were enrolled there are lost: " + strings.Join(lost, ", ")
	}
}
