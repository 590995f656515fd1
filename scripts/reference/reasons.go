package main

import (
	"strconv"

	"palyra/internal/core/reason"
)

var reasonsPage = page{
	file: "reasons.md", title: "Reasons and exit codes", body: reasons,
	intro: `
Each refused, denied or failed call or request has one of these codes as its reason. The code is in
the API's error details (` + "`google.rpc.ErrorInfo.reason`, domain `palyra.dev`" + `), in the journal and the
attestation, in the labels of metrics, and in the text for agents. The list is closed: programs may
switch over it, and the meaning of a code never changes.

Each code has a sentence for people, a default next step, and the exit code of ` + "`palyra`" + `. An error may
have a more specific next step, which replaces the default.`,
}

func reasons() (string, error) {
	exits := newTable("exit", "meaning")
	for _, e := range reason.ExitCodes {
		exits.row(strconv.Itoa(e.Code), e.Meaning)
	}
	codes := newTable("code", "exit", "meaning", "next step")
	for _, r := range reason.Table {
		codes.row("`"+string(r.Code)+"`", strconv.Itoa(r.Exit), r.Sentence, r.Remedy)
	}
	return "## Exit codes\n\n" + exits.String() + "\n## Reasons\n\n" + codes.String(), nil
}
