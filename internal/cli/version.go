package cli

import (
	"github.com/spf13/cobra"

	"palyra/internal/cli/command"
	"palyra/internal/cli/printer"
	"palyra/internal/cli/release"
	"palyra/internal/core/version"
)

// versionCommand prints the version of the build, or verifies it.
func (a *app) versionCommand() *cobra.Command {
	var signature, key string
	c := &cobra.Command{
		Use: "version", Short: "Print the release of palyra, with its commit, date, builder and SBOM, or verify it", Args: command.Args(0, 0),
		Long: "Print the release, the commit and its date, the builder, the digest of the SBOM\n" +
			"and the Go version. A program that was built from source records no builder and\n" +
			"no SBOM.\n\n" +
			"--verify checks the running program, and the palyrad, palyra-hook and palyra-wasm\n" +
			"next to it, against SHA256SUMS.programs of its release. FILE is the signature of\n" +
			"that list; the list is the file next to it without .sig. The signature is ECDSA\n" +
			"P-256 over SHA-256, as `cosign sign-blob --key` writes it; --key is the public\n" +
			"key in PEM. A key has no end of validity, so a signature does not expire. No\n" +
			"gateway is needed. Exits 8 if verification fails, and 2 if the key or the list\n" +
			"cannot be read.\n\n" +
			"A replaced palyra can print anything. To verify without running it, use cosign\n" +
			"or openssl, and sha256sum (docs/install.md).",
		Example: "palyra version --verify SHA256SUMS.programs.sig --key palyra.pub",
		RunE: func(*cobra.Command, []string) error {
			if (signature == "") != (key == "") {
				return command.Usage("--verify and --key are used together").WithRemedy("palyra version --verify SHA256SUMS.programs.sig --key palyra.pub")
			}
			if signature != "" {
				return a.verifyRelease(signature, key)
			}
			return a.printVersion()
		},
	}
	c.Flags().StringVar(&signature, "verify", "", "verify this release by the signature of its SHA256SUMS.programs, a file that ends in .sig")
	c.Flags().StringVar(&key, "key", "", "the public key of the release (PEM, ECDSA P-256)")
	return c
}

func (a *app) printVersion() error {
	v := version.Get()
	body := printer.Object{
		{"version", v.Version}, {"revision", v.Revision}, {"date", v.Date}, {"modified", v.Modified},
		{"builder", v.Builder}, {"sbom", v.SBOM}, {"go", v.Go}, {"os", v.OS}, {"arch", v.Arch},
	}
	return a.PrintOne("Version", printer.Record{Name: v.Version, Body: body}, func(p *printer.Page) {
		for _, f := range v.Fields() {
			p.Field(f[0], f[1])
		}
	})
}

// verifyRelease prints the outcome of each program, also if one is not verified.
func (a *app) verifyRelease(signature, key string) error {
	running, err := release.Self()
	if err != nil {
		return err
	}
	report, failure := release.Verify(signature, key, running)
	if len(report.Programs) == 0 {
		return failure
	}
	// The list has the digest of the running program, so its signature covers this version.
	v := version.Get()
	programs := make([]any, len(report.Programs))
	for i, program := range report.Programs {
		programs[i] = printer.Object{
			{"name", program.Name}, {"path", program.Path}, {"result", string(program.Result)}, {"sha256", program.Digest}, {"listed_sha256", program.Listed},
		}
	}
	body := printer.Object{
		{"verified", failure == nil}, {"version", v.Version}, {"list", report.List}, {"list_sha256", report.Digest}, {"key_sha256", report.Key},
		{"platform", report.Platform}, {"programs", programs},
	}
	printed := a.PrintOne("VersionVerification", printer.Record{Name: v.Version, Body: body}, func(p *printer.Page) {
		verified := "no"
		if failure == nil {
			verified = "yes, release " + v.Version
		}
		p.Field("verified", verified)
		p.Field("list", report.List+" "+report.Digest)
		p.Field("signed by", key+" "+report.Key)
		for _, program := range report.Programs {
			p.Field(program.Name, string(program.Result)+" "+program.Path+" "+program.Digest)
		}
	})
	if failure != nil {
		return failure
	}
	return printed
}
