package doctor

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Diagnosis is the machine-readable output; fields are only ever added.
type Diagnosis struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Healthy    bool    `json:"healthy"`
	Checks     []Check `json:"checks"`
}

// Write writes the exams as a table, or as JSON when output is "json". It returns an error if
// an exam failed.
func Write(out io.Writer, exams []Check, output string) error {
	failed := 0
	for _, e := range exams {
		if e.Result == Failed {
			failed++
		}
	}
	var err error
	if output == "json" {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		err = enc.Encode(Diagnosis{"palyra.dev/v1", "Diagnosis", failed == 0, exams})
	} else {
		err = writeChecks(out, exams)
	}
	switch {
	case err != nil:
		return fmt.Errorf("writing the diagnosis: %w", err)
	case failed > 0:
		return fmt.Errorf("%d of %d checks failed", failed, len(exams))
	}
	return nil
}

func writeChecks(out io.Writer, exams []Check) error {
	for _, e := range exams {
		if _, err := fmt.Fprintf(out, "%-8s %-26s %s\n", e.Result, e.Name, e.Detail); err != nil {
			return err
		}
		if e.Remedy == "" || e.Result == OK {
			continue
		}
		if _, err := fmt.Fprintf(out, "%-8s %-26s next: %s\n", "", "", indented(e.Remedy)); err != nil {
			return err
		}
	}
	return nil
}

// indented aligns the further lines of a text, such as a profile to install, with its first
// line.
func indented(text string) string {
	return strings.ReplaceAll(text, "\n", "\n"+strings.Repeat(" ", 36))
}
