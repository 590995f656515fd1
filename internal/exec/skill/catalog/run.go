package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"palyra/internal/core/canonical"
	"palyra/internal/core/reason"
	"palyra/internal/core/tool"
	"palyra/internal/egress"
	"palyra/internal/exec/sandbox"
	"palyra/internal/exec/wasm/guest"
)

// run makes a decided call.
func (t Tool) run(ctx context.Context, c tool.Call, m prepared) tool.Report {
	call := m.call
	report := tool.Begin(tool.ExecutorInfo{Name: tool.TierAWasmtime, Version: t.use.Version, Tier: string(sandbox.TierA)})
	digest, err := c.Plan.Binding.Digest()
	if err != nil {
		return report.Fail(ctx, err)
	}
	call.Seed = sha256.Sum256([]byte(digest))
	h := newHost(t, c, m.grants)
	defer h.close()
	call.Host = h
	ran, err := t.use.Guests.Run(ctx, call)
	ran.Describe(&report, egress.Strict)
	report.Grants = h.usesOf(ran.Grants)
	report.Egress = tool.Egress{Mode: report.Egress.Mode, Allowed: canonical.List(m.grants.hosts()), Observed: canonical.List(h.connections), Missed: h.missed}
	ran.Stderr.Head = append(ran.Stderr.Head, h.log...)
	written(&report, ran)
	if scrubErr := h.scrub(&ran, &report); scrubErr != nil {
		return report.Fail(ctx, scrubErr)
	}
	if c.Output != nil && len(ran.Stderr.Head) > 0 {
		c.Output("stderr", ran.Stderr.Head)
	}
	if err != nil {
		return report.Fail(ctx, guest.WithLog(err, ran.Stderr.Head))
	}
	if report.Result, err = t.result(ran.Stdout.Head); err != nil {
		report.Result = nil
		return report.Fail(ctx, guest.WithLog(err, ran.Stderr.Head))
	}
	report.Outcome = tool.Succeeded
	return report.Finish()
}

// written records the digests of the guest's output.
func written(r *tool.Report, ran sandbox.Report) {
	r.Outputs.StdoutBytes, r.Outputs.StderrBytes = int64(len(ran.Stdout.Head)), int64(len(ran.Stderr.Head))
	if len(ran.Stdout.Head) > 0 {
		r.Outputs.StdoutSHA256 = canonical.Digest(ran.Stdout.Head)
	}
	if len(ran.Stderr.Head) > 0 {
		r.Outputs.StderrSHA256 = canonical.Digest(ran.Stderr.Head)
	}
}

// result validates the guest's result against the manifest and returns it in canonical form.
func (t Tool) result(output []byte) (json.RawMessage, error) {
	text, err := canonical.JSON(output)
	if err != nil {
		return nil, reason.Errorf(reason.ToolFailed, "the result of %s is not JSON: %w", t.name(), err).
			WithRemedy("Fix the skill: it must write one JSON object to standard output, and its log to standard error.")
	}
	if !strings.HasPrefix(string(text), "{") {
		return nil, reason.Errorf(reason.ToolFailed, "the result of %s is not a JSON object", t.name()).WithRemedy("Fix the skill: its results must be objects.")
	}
	if t.output == nil {
		return text, nil
	}
	if err := t.output.CheckResult(text); err != nil {
		return nil, reason.Errorf(reason.ToolFailed, "the result of %s does not match its output_schema: %s", t.name(), reason.Known(err, reason.ToolFailed).Message).
			WithRemedy("Fix the skill, or its output_schema in skill.toml.")
	}
	return text, nil
}

// scrub removes the secrets that the guest read from its output.
func (h *host) scrub(ran *sandbox.Report, to *tool.Report) error {
	if len(h.values) == 0 {
		return nil
	}
	known, err := seen(h.values)
	if err != nil {
		ran.Stdout.Head, ran.Stderr.Head = nil, nil
		return err
	}
	defer known.Wipe()
	for _, text := range []*[]byte{&ran.Stdout.Head, &ran.Stderr.Head} {
		clean := known.Text(string(*text))
		if clean != string(*text) {
			to.Outputs.Redactions = slices.Sorted(maps.Keys(h.values))
		}
		*text = []byte(clean)
	}
	return nil
}
