package upstream

import "palyra/internal/exec/upstream/declared"

// Stale reports whether a server announced changes since its last inspection.
func (m *Manager) Stale(name string) bool {
	k, err := m.catalog.find(name)
	return err == nil && k.stale
}

var (
	ResultOf  = resultOf
	Strip     = func(v map[string]any) { strip(v, declared.ReservedMeta) }
	MayNotify = mayNotify

	WrapContent   = wrapContent
	UnwrapContent = unwrapContent
)
