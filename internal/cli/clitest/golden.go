package clitest

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"charm.land/lipgloss/v2"

	"palyra/internal/cli/printer"
	"palyra/internal/core/must"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
)

// Update is the flag that writes the golden files.
var Update = flag.Bool("update", false, "write the golden files")

// Golden compares the output of commands in every format with the files of testdata/golden; -update
// writes them.
func Golden(t *testing.T, commands map[string][]string) {
	t.Helper()
	w := NewWorld(t)
	for name, args := range commands {
		out := map[string]string{}
		for _, format := range printer.Formats {
			w.Populate()
			r := w.Run(append(append([]string{}, args...), "-o", format)...)
			out[format] = strings.ReplaceAll(r.Out, w.Address, "127.0.0.1:7443")
			checkGolden(t, filepath.Join("testdata", "golden", name+"."+format), out[format])
		}
		SameValue(t, name, out[printer.FormatJSON], out[printer.FormatYAML])
		// A table starts with a header in capitals; other lists consist of sentences.
		if header := printer.FirstLine(out[printer.FormatTable]); header == strings.ToUpper(header) {
			w.fits(args)
		}
	}
}

// fits checks that no table is wider than its terminal.
func (w *World) fits(args []string) {
	w.T.Helper()
	for _, width := range []int{80, 60} {
		w.Populate()
		r := w.With(printer.Streams{OutTerminal: true, Width: width}, append([]string{"--no-color"}, args...)...)
		for line := range strings.Lines(r.Out) {
			if n := lipgloss.Width(strings.TrimSuffix(line, "\n")); n > width {
				w.T.Errorf("%v is %d columns wide on a terminal of %d:\n%s", args, n, width, line)
			}
		}
	}
}

func checkGolden(t *testing.T, path, got string) {
	t.Helper()
	if *Update {
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o750))
		must.Do(t, os.WriteFile(path, []byte(got), 0o600))
		return
	}
	want := must.Get(os.ReadFile(path))(t)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// SameValue compares the values of both texts with an independent YAML parser: JSON is valid
// YAML 1.2.
func SameValue(t *testing.T, name, asJSON, asYAML string) {
	t.Helper()
	var fromYAML, fromJSON any
	if err := yaml.Unmarshal([]byte(asYAML), &fromYAML); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, asYAML)
	}
	if err := yaml.Unmarshal([]byte(asJSON), &fromJSON); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if diff := cmp.Diff(fromJSON, fromYAML); diff != "" {
		t.Errorf("%s: YAML and JSON differ:\n%s", name, diff)
	}
}
