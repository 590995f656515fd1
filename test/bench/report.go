//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"palyra/internal/core/version"
)

// limit is the limit of a goal; the zero value means no limit.
type limit struct {
	least bool
	value float64
	set   bool
}

func atMost(v float64) limit  { return limit{value: v, set: true} }
func atLeast(v float64) limit { return limit{least: true, value: v, set: true} }

func (l limit) holds(v float64) bool {
	if l.least {
		return v >= l.value
	}
	return v <= l.value
}

func (l limit) String() string {
	switch {
	case !l.set:
		return ""
	case l.least:
		return ">= " + number(l.value)
	}
	return "<= " + number(l.value)
}

// line is a row of the table during measurement.
type line struct {
	goal, what string
	// floorName describes the floor; "" if the goal has none, and the limit then applies to the
	// product itself.
	floorName string
	unit      string
	limit     limit
	note      string

	floors, products []float64
}

// add adds the figures of one round. The floor is ignored for a goal without one.
func (l *line) add(floor, product float64) {
	l.floors = append(l.floors, floor)
	l.products = append(l.products, product)
}

// ratio returns the median of the rounds' ratios. A slow round affects both sides.
func (l *line) ratio() float64 {
	ratios := make([]float64, 0, len(l.products))
	for i, p := range l.products {
		if l.floors[i] > 0 {
			ratios = append(ratios, p/l.floors[i])
		}
	}
	return median(ratios)
}

func (l *line) row() row {
	r := row{
		Goal: l.goal, What: l.what, Unit: l.unit, Product: median(l.products), Bound: l.limit.String(), Note: l.note,
	}
	judged := r.Product
	if l.floorName != "" {
		r.FloorName, r.Floor, r.Ratio = l.floorName, median(l.floors), l.ratio()
		judged = r.Ratio
	}
	if l.limit.set {
		r.Verdict = misses
		if l.limit.holds(judged) {
			r.Verdict = holds
		}
	}
	return r
}

// Verdicts of a row; "" for a figure without a goal.
const (
	holds       = "holds"
	misses      = "misses"
	notMeasured = "not measured"
)

// row is one row of the table.
type row struct {
	Goal      string  `json:"goal"`
	What      string  `json:"what"`
	FloorName string  `json:"floor_name,omitempty"`
	Unit      string  `json:"unit,omitempty"`
	Floor     float64 `json:"floor,omitempty"`
	Product   float64 `json:"product"`
	Ratio     float64 `json:"ratio,omitempty"`
	Bound     string  `json:"bound,omitempty"`
	Verdict   string  `json:"verdict,omitempty"`
	Note      string  `json:"note,omitempty"`
}

// unmeasured returns the row of a goal that this machine cannot measure.
func unmeasured(name string, why error) row {
	goal, what, _ := strings.Cut(name, "-")
	return row{Goal: goal, What: strings.ReplaceAll(what, "-", " "), Verdict: notMeasured, Note: why.Error()}
}

// machine describes the machine of the figures.
type machine struct {
	CPUs       int    `json:"cpus"`
	System     string `json:"system"`
	Kernel     string `json:"kernel"`
	Filesystem string `json:"filesystem"`
	Go         string `json:"go"`
	Version    string `json:"version"`
	// Load has the load averages of 1, 5 and 15 minutes at the start. Other work on the machine
	// makes every figure worse.
	Load string `json:"load"`
}

func machineOf(dir string) machine {
	m := machine{
		CPUs: runtime.NumCPU(), System: runtime.GOOS + "/" + runtime.GOARCH, Filesystem: filesystem(dir),
		Go: runtime.Version(), Version: version.Get().Version, Load: loadAverages(),
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	return m
}

// loadAverages returns the load averages of the last 1, 5 and 15 minutes.
func loadAverages() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}

// filesystem returns the type of a file system. A file system in memory syncs nothing.
func filesystem(dir string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "unknown"
	}
	names := map[int64]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs: nothing is durable here, the floors mean nothing", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
	}
	if name, known := names[st.Type]; known {
		return name
	}
	return fmt.Sprintf("type %#x", st.Type)
}

// report is the table with the description of the machine.
type report struct {
	At      time.Time `json:"at"`
	Machine machine   `json:"machine"`
	Rounds  int       `json:"rounds"`
	Quick   bool      `json:"quick,omitempty"`
	Lines   []row     `json:"lines"`
}

func (r report) print(w io.Writer) error {
	m := r.Machine
	fmt.Fprintf(w, "%d CPUs, %s, kernel %s, %s; %s; load %s at the start; %d rounds, medians\n\n", m.CPUs, m.System, m.Kernel, m.Filesystem, m.Go, m.Load, r.Rounds)
	// Flush returns the error of a failed write.
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "goal\twhat\tfloor\tproduct\tratio\tgoal\tholds")
	for _, l := range r.Lines {
		_, _ = fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Goal, l.title(), l.floor(), l.product(), l.ratio(), l.Bound, l.Verdict)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range r.Lines {
		if l.Note != "" && l.Verdict != notMeasured {
			fmt.Fprintf(w, "\n%s %s: %s", l.Goal, l.What, l.Note)
		}
	}
	fmt.Fprintln(w)
	r.printUnmeasured(w)
	return nil
}

// printUnmeasured prints every goal without a figure and the reason. It is at the end of the
// report, where it is visible.
func (r report) printUnmeasured(w io.Writer) {
	var reasons []string
	for _, l := range r.Lines {
		if l.Verdict == notMeasured {
			reasons = append(reasons, fmt.Sprintf("  %s %s: %s\n", l.Goal, l.What, l.Note))
		}
	}
	if len(reasons) > 0 {
		fmt.Fprintf(w, "\nnot measured: %d of %d lines\n%s", len(reasons), len(r.Lines), strings.Join(reasons, ""))
	}
}

func (r row) title() string {
	if r.FloorName == "" {
		return r.What
	}
	return r.What + " / " + r.FloorName
}

func (r row) floor() string {
	if r.FloorName == "" {
		return "-"
	}
	return number(r.Floor) + " " + r.Unit
}

func (r row) product() string {
	if r.Verdict == notMeasured {
		return "-"
	}
	return strings.TrimSpace(number(r.Product) + " " + r.Unit)
}

func (r row) ratio() string {
	if r.FloorName == "" {
		return "-"
	}
	return number(r.Ratio)
}

// number formats a value with three significant digits.
func number(v float64) string {
	switch {
	case v >= 100 || v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// write writes the report as JSON.
func (r report) write(path string) error {
	r.At = time.Now().UTC().Truncate(time.Second)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}
