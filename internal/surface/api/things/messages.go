package things

import (
	palyrav1 "palyra/gen/palyra/v1"
	"palyra/internal/exec/skill"
	"palyra/internal/exec/skill/registry"
)

// messages converts versions to list entries, which omit the schemas of their tools.
func messages(list []registry.Installed) (out []*palyrav1.Skill) {
	for _, i := range list {
		out = append(out, skillMessage(i, false))
	}
	return out
}

func skillMessage(i registry.Installed, schemas bool) *palyrav1.Skill {
	m := &palyrav1.Skill{
		Skill: i.Skill, Version: i.Version, Publisher: i.Publisher, KeyId: i.KeyID, Digest: i.Digest, Why: i.Why, Current: i.Current,
		InstalledBy: i.InstalledBy.String(), InstalledAt: moment(i.InstalledAt), ChangedBy: i.ChangedBy.String(), ChangedAt: moment(i.ChangedAt),
		Manifest: manifest(i.Manifest, schemas),
	}
	for status, is := range statuses {
		if is == i.Status {
			m.Status = status
		}
	}
	m.Problem, m.Remedy = problem(i.Problem)
	return m
}

// manifest converts a manifest to its API message, nil for none.
func manifest(m *skill.Manifest, schemas bool) *palyrav1.SkillManifest {
	if m == nil {
		return nil
	}
	out := &palyrav1.SkillManifest{
		Id: m.ID, Version: m.Version, Publisher: m.Publisher, Name: m.Name, Description: m.Description, License: m.License, Homepage: m.Homepage,
		Interface: m.Compatibility.Interface, Palyra: m.Compatibility.Palyra,
		Quotas: &palyrav1.SkillQuotas{MemoryBytes: m.Quotas.MemoryBytes, WallMs: m.Quotas.WallMillis, OutputBytes: m.Quotas.OutputBytes, Uses: m.Quotas.Uses},
	}
	for _, t := range m.Tools {
		one := &palyrav1.SkillTool{
			Name: m.ID + "/" + t.ID, Id: t.ID, Description: t.Description, Module: t.Module,
			Fuel: int64(t.FuelOf()), Risk: int32(t.RiskOf()), Capabilities: capabilities(t.Capabilities), Features: features(t.Features), //#nosec G115 -- bounded by the manifest
		}
		if schemas {
			one.InputSchemaJson, one.OutputSchemaJson = t.InputSchema(), t.OutputSchema()
		}
		out.Tools = append(out.Tools, one)
	}
	return out
}

func capabilities(c skill.Capabilities) *palyrav1.SkillCapabilities {
	out := &palyrav1.SkillCapabilities{Http: c.HTTP, StorageBytes: c.StorageBytes, Channels: c.Channels, Clock: c.Clock, Random: c.Random}
	for _, s := range c.Secrets {
		out.Secrets = append(out.Secrets, &palyrav1.SkillSecret{Name: s.Name, Use: string(s.Use)})
	}
	return out
}

func features(f skill.Features) (list []string) {
	if f.SIMD {
		list = append(list, "simd")
	}
	if f.MultiValue {
		list = append(list, "multi_value")
	}
	return list
}

func findings(list []skill.Finding) (out []*palyrav1.SkillFinding) {
	for _, f := range list {
		out = append(out, &palyrav1.SkillFinding{Severity: string(f.Severity), Code: f.Code, About: f.About, What: f.What, Remedy: f.Remedy})
	}
	return out
}

func publisher(p registry.Publisher) *palyrav1.SkillPublisher {
	m := &palyrav1.SkillPublisher{
		Name: p.Name, KeyId: p.KeyID, PublicKey: p.PublicKey, FirstUse: p.FirstUse, Distrusted: p.Distrusted, AddedBy: p.By.String(), AddedAt: moment(p.At),
	}
	m.Problem, m.Remedy = problem(p.Problem)
	return m
}
