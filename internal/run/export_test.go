package run

// BoundTapes sets the memory limits of tapes that are opened later: the limit of each tape and
// of all together.
func (m *Manager) BoundTapes(each int, most int64) { m.tapes.each, m.tapes.most = each, most }

// TapeMemory returns the memory that the tapes use.
func (m *Manager) TapeMemory() int64 { return m.tapes.used.Load() }

// DropTape evicts the content of a run's tape from memory.
func (m *Manager) DropTape(id string) { m.tapes.find(id).evict() }

// LoseTape makes a run's tape read from the journal.
func (m *Manager) LoseTape(id string) { m.tapes.find(id).lose() }

// FirstProvisional is the first position of events that are not journaled.
const FirstProvisional = firstProvisional

// MostResult is the maximum length of a result's text for the model.
const MostResult = mostResult

// MostQueued is the maximum number of queued messages.
const MostQueued = mostQueued

// TapeLife is how long the tape of an ended run stays in memory.
const TapeLife = tapeLife
