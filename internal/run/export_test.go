package run

// BoundTapes sets what tapes that are opened from now on may hold in memory:
// each of them, and all together.
func (m *Manager) BoundTapes(each int, most int64) { m.tapes.each, m.tapes.most = each, most }

// TapeMemory is how much memory the tapes hold.
func (m *Manager) TapeMemory() int64 { return m.tapes.used.Load() }

// DropTape makes the tape of a run forget what it holds.
func (m *Manager) DropTape(id string) { m.tapes.find(id).evict() }

// LoseTape makes the tape of a run one that is read from the journal.
func (m *Manager) LoseTape(id string) { m.tapes.find(id).lose() }

// FirstProvisional is the first place of what is not journaled.
const FirstProvisional = firstProvisional

// MostResult bounds the text of one result that the model is given.
const MostResult = mostResult

// MostQueued bounds the messages that wait.
const MostQueued = mostQueued

// TapeLife is how long the tape of a run that ended stays in memory.
const TapeLife = tapeLife
