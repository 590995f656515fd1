package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"palyra/internal/config"
)

func doctorCommand(s *settings) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use: "doctor", Short: "Look at everything that the gateway stands on", Args: usage(cobra.NoArgs),
		Long: "Look at everything that the gateway stands on: keys, journal, disk, clock, ports, policies and the sandbox. Each layer of the sandbox is tried twice: the forbidden thing has to fail with it, and to happen with this one layer left out.\n\nIt works with no daemon and beside one, and changes nothing. Run it as the user that palyrad runs as. It exits 1 when something failed; warnings do not count.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "table" && output != "json" {
				return misused(cmd, fmt.Errorf("--output %q: want table or json", output))
			}
			cfg, err := s.load()
			if err != nil {
				return err
			}
			return examine(cmd.Context(), cmd.OutOrStdout(), cfg, output)
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return c
}

// diagnosis is the machine output; fields are only ever added.
type diagnosis struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Healthy    bool   `json:"healthy"`
	Checks     []Exam `json:"checks"`
}

func examine(ctx context.Context, out io.Writer, cfg *config.Config, output string) error {
	exams := Examine(ctx, cfg)
	failed := 0
	for _, e := range exams {
		if e.Result == examFailed {
			failed++
		}
	}
	var err error
	if output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(diagnosis{"palyra.dev/v1", "Diagnosis", failed == 0, exams})
	} else {
		err = writeExams(out, exams)
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing the diagnosis: %w", err)
	case failed > 0:
		return fmt.Errorf("%d of %d checks failed", failed, len(exams))
	}
	return nil
}

func writeExams(out io.Writer, exams []Exam) error {
	for _, e := range exams {
		if _, err := fmt.Fprintf(out, "%-8s %-26s %s\n", e.Result, e.Name, e.Detail); err != nil {
			return err
		}
		if e.Remedy == "" || e.Result == examOK {
			continue
		}
		if _, err := fmt.Fprintf(out, "%-8s %-26s next: %s\n", "", "", indented(e.Remedy)); err != nil {
			return err
		}
	}
	return nil
}

// indented lines a text of several lines, such as a profile to install, up
// under its first.
func indented(text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 36))
}
