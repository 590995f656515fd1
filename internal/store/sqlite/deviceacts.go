package sqlite

import (
	"context"
	"encoding/json"
	"fmt"

	"palyra/internal/core/event"
	"palyra/internal/evidence/journal"
)

// noteDevices stores the devices of an event that cannot be found through the device's sessions.
func noteDevices(c *Conn, e *journal.Event) error {
	if e.Code != event.Voted && e.Code != event.GrantMinted && !e.Code.Attributed() {
		return nil
	}
	type by struct {
		Device string `json:"device"`
	}
	var p struct {
		Vote     by     `json:"vote"`
		MintedBy []by   `json:"minted_by"`
		ByDevice string `json:"by_device"`
	}
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return fmt.Errorf("reading who caused event %d: %w", e.Seq, err)
	}
	for _, d := range append(p.MintedBy, p.Vote, by{p.ByDevice}) {
		if d.Device == "" {
			continue
		}
		if err := c.Query("INSERT INTO device_acts (device, seq) VALUES (?1, ?2) ON CONFLICT DO NOTHING", nil, d.Device, e.Seq); err != nil {
			return err
		}
	}
	return nil
}

// ofDevice selects the sequence numbers of the acts of a device (?1) before ?4, newest first: the
// rows of the table, the calls of its sessions (from ?2 to ?3), and its runs. A call of a run
// counts as part of the run.
var ofDevice = `SELECT seq FROM (
 SELECT seq FROM device_acts WHERE device = ?1
 UNION SELECT seq FROM events INDEXED BY events_session WHERE session >= ?2 AND session < ?3 AND session <> '' AND run = '' AND code = '` + string(event.Proposed) + `'
 UNION SELECT e.seq FROM session_runs s JOIN events e ON e.subject = s.run AND e.subject <> '' AND e.code = '` + string(event.RunStarted) + `'
  WHERE s.session >= ?2 AND s.session < ?3` + eachWay(ofRun("e.", "s.run"), `
 UNION SELECT e.seq FROM session_runs s JOIN events e ON %s AND e.session = s.session AND e.code = '`+string(event.Proposed)+`'
  WHERE s.session >= ?2 AND s.session < ?3 AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = s.run)`) + `
) WHERE seq < ?4 ORDER BY seq DESC LIMIT ?5`

var deviceActs = "SELECT " + eventColumns + " FROM events WHERE seq IN (" + ofDevice + ") ORDER BY seq DESC"

// DeviceActs returns the approvals, starts and changes made with a device, newest first: events
// with a sequence number below before, or from the newest on if before is 0.
func (db *DB) DeviceActs(ctx context.Context, device string, before int64, limit int) (acts []journal.Event, err error) {
	if before == 0 {
		before = 1<<63 - 1
	}
	err = db.Read(ctx, func(c *Conn) error {
		return c.Query(deviceActs, func(r *Row) error {
			e, err := scanEvent(r)
			acts = append(acts, e)
			return err
		}, device, device+".", device+"/", before, limit)
	})
	if err != nil {
		return nil, fmt.Errorf("reading what device %s did: %w", device, err)
	}
	return acts, nil
}
