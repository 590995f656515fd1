package main

import (
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The elements of JUnit's XML that continuous integration servers read, as Apache Ant's
// JUnitReport writes them.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Skipped  int         `xml:"skipped,attr"`
		Seconds  string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		Seconds string        `xml:"time,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Skipped *junitMessage `xml:"skipped,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

// writeReport writes junit.xml and durations.txt into the report directory.
func (s *session) writeReport() error {
	if err := os.MkdirAll(s.report, 0o755); err != nil { //nolint:gosec // a report is not secret
		return fmt.Errorf("making the report directory: %w", err)
	}
	text, err := xml.MarshalIndent(s.junit(), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.report, "junit.xml"), append([]byte(xml.Header), append(text, '\n')...), 0o644); err != nil { //nolint:gosec // as above
		return err
	}
	return os.WriteFile(filepath.Join(s.report, "durations.txt"), []byte(s.durations()), 0o644) //nolint:gosec // as above
}

func (s *session) junit() junitSuites {
	var all junitSuites
	for _, p := range s.results {
		suite := junitSuite{Name: p.Tier + " " + p.Name, Seconds: decimal(p.Took.Seconds())}
		for _, t := range p.Tests {
			c := junitCase{Class: t.Package, Name: t.Name, Seconds: decimal(t.Took.Seconds())}
			suite.Tests++
			switch {
			case t.bad():
				suite.Failures++
				c.Failure = &junitMessage{Message: string(t.Outcome), Text: t.Output + "\n" + t.Reproduce}
			case t.Outcome == skipped:
				suite.Skipped++
				c.Skipped = &junitMessage{Message: strings.TrimSpace(t.Output)}
			}
			suite.Cases = append(suite.Cases, c)
		}
		all.Suites = append(all.Suites, suite)
	}
	return all
}

// durations returns the lines of durations.txt: tier, package and seconds.
func (s *session) durations() string {
	var lines []string
	for _, p := range s.results {
		if !p.Cached && strings.HasPrefix(p.Name, module+"/") {
			lines = append(lines, fmt.Sprintf("%s %s %.1f\n", p.Tier, p.Name, p.Took.Seconds()))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func decimal(s float64) string { return fmt.Sprintf("%.3f", s) }
