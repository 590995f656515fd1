package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/wasm/guest"
)

// run makes a decided call.
func (t Tool) run(ctx context.Context, c tool.Call, m prepared) tool.Report {
	call := m.call
	report := tool.Report{
		Executor:    tool.ExecutorInfo{Name: tool.TierAWasmtime, Version: t.use.Version, Tier: guest.Tier},
		Enforcement: tool.Unenforced(),
		Egress:      tool.Egress{Mode: egress.Strict.String(), Allowed: []string{}, Observed: []tool.Connection{}}, StartedAt: time.Now().UTC(),
	}
	digest, err := c.Plan.Binding.Digest()
	if err != nil {
		return report.Fail(ctx, err)
	}
	call.Seed = sha256.Sum256([]byte(digest))
	h := newHost(t, c, m.grants)
	defer h.close()
	call.Host = h
	ran, err := t.use.Guests.Run(ctx, call)
	ran.Describe(&report)
	report.Grants = h.usesOf(ran)
	report.Egress = tool.Egress{Mode: report.Egress.Mode, Allowed: notNil(m.grants.hosts()), Observed: notNil(h.connections), Missed: h.missed}
	ran.Log = append(ran.Log, h.log...)
	written(&report, ran)
	if scrubErr := h.scrub(&ran, &report); scrubErr != nil {
		return report.Fail(ctx, scrubErr)
	}
	if c.Output != nil && len(ran.Log) > 0 {
		c.Output("stderr", ran.Log)
	}
	if err != nil {
		return report.Fail(ctx, ran.WithLog(err))
	}
	if report.Result, err = t.result(ran.Output); err != nil {
		report.Result = nil
		return report.Fail(ctx, ran.WithLog(err))
	}
	report.Outcome = tool.Succeeded
	return report.Finish()
}

// written says what the guest wrote, by its digests.
func written(r *tool.Report, ran guest.Report) {
	r.Outputs.StdoutBytes, r.Outputs.StderrBytes = int64(len(ran.Output)), int64(len(ran.Log))
	if len(ran.Output) > 0 {
		r.Outputs.StdoutSHA256 = canonical.Digest(ran.Output)
	}
	if len(ran.Log) > 0 {
		r.Outputs.StderrSHA256 = canonical.Digest(ran.Log)
	}
}

// result is what the guest gave, in its canonical form. It has to be what the manifest
// says that it is.
func (t Tool) result(output []byte) (json.RawMessage, error) {
	text, err := canonical.JSON(output)
	if err != nil {
		return nil, reason.Errorf(reason.ToolFailed, "the result of %s is no JSON: %w", t.name(), err).
			WithRemedy("Mend the skill: what it writes to standard output has to be one JSON object, and its log belongs on standard error.")
	}
	if !strings.HasPrefix(string(text), "{") {
		return nil, reason.Errorf(reason.ToolFailed, "the result of %s is no JSON object", t.name()).WithRemedy("Mend the skill: its results have to be objects.")
	}
	if t.output == nil {
		return text, nil
	}
	if err := t.output.CheckResult(text); err != nil {
		return nil, reason.Errorf(reason.ToolFailed, "the result of %s is not what its output_schema says: %s", t.name(), reason.Known(err, reason.ToolFailed).Message).
			WithRemedy("Mend the skill, or its output_schema in skill.toml.")
	}
	return text, nil
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// scrub takes the secrets that the guest saw out of what it leaves behind.
func (h *host) scrub(ran *guest.Report, to *tool.Report) error {
	if len(h.values) == 0 {
		return nil
	}
	known, err := seen(h.values)
	if err != nil {
		ran.Output, ran.Log = nil, nil
		return err
	}
	defer known.Wipe()
	for _, text := range []*[]byte{&ran.Output, &ran.Log} {
		clean := known.Text(string(*text))
		if clean != string(*text) {
			to.Outputs.Redactions = slices.Sorted(maps.Keys(h.values))
		}
		*text = []byte(clean)
	}
	return nil
}
