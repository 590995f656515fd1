package main

import (
	"fmt"
	"strings"

	"palyra/internal/core/event"
)

var eventsPage = page{
	file: "events.md", title: "Events", body: events,
	intro: `
Each event in the journal has one of these codes. Codes are never reused. The payload is one JSON
object: fields may be added, and existing fields keep their meaning. Each event also has the time,
session, run, actor and subject of [the journal format](../format/journal.md). Digests are ` + "`sha256:`" + `
and hex; times are RFC 3339 in UTC.`,
}

func events() (string, error) {
	var b strings.Builder
	for _, s := range event.Catalog {
		fmt.Fprintf(&b, "## %s\n\n", s.Title)
		if s.Intro != "" {
			b.WriteString(linked(s.Intro) + "\n\n")
		}
		rows := newTable("code", "event", "subject", "payload")
		for _, r := range s.Rows {
			rows.row("`"+string(r.Code)+"`", linked(r.About), r.Subject, linked(r.Payload))
		}
		b.WriteString(rows.String() + "\n")
	}
	return b.String(), nil
}
